import { pino } from "pino";
import { type CommandAppOptions, createCommandApp } from "../../command/app.ts";
import { createAuditApp } from "../../command/audit/app.ts";
import type { Upstream } from "../../deploy/local/gateway/gateway-server.ts";
import { createQueryApp, type QueryApiOptions } from "../../query-api/app.ts";
import { listMounts, partnerOperations } from "../../shared/partner-api/operations.ts";

const options = {
  ...{ operatorName: "Test Operator", cookieName: "sb-test-auth-token", brand: "SERVICE" },
  ...{ origin: "http://partners.test", tokenIssuer: "http://partners.test" },
  ...{ tokenSigner: { jwks: { keys: [] } }, signer: { jwks: { keys: [] } }, webhookKeys: { keys: [] } },
  ...{ logger: pino({ level: "silent" }), retiredPaths: [], isProxyTrusted: false, checkReadiness: async () => ({}) },
  limiter: { count: async () => ({ used: 1, endsAt: Date.now(), endsInMs: 1 }), findExcess: () => undefined },
};

/** The services' applications without servers, for requests that need no data. */
export const routedApps: Record<Upstream, ReturnType<typeof createCommandApp>> = {
  command: createCommandApp(options as unknown as CommandAppOptions),
  queryApi: createQueryApp(options as unknown as QueryApiOptions) as never,
  audit: createAuditApp(options as unknown as Parameters<typeof createAuditApp>[0]),
};

interface RoutedMiddleware {
  router?: { stack: { path: string | RegExp; methods: string[] }[] };
}

/** Returns the handled methods of a service, by path. Omits routes that return 405. */
export function listRoutes(service: Upstream): Map<string, string[]> {
  const { middleware } = routedApps[service] as unknown as { middleware: RoutedMiddleware[] };
  const layers = middleware.flatMap(({ router }) => router?.stack ?? []);
  const methodsByPath = new Map<string, string[]>();
  for (const { path, methods } of layers.filter(({ methods }) => methods.length > 0 && !methods.includes("TRACE")))
    methodsByPath.set(String(path), [...new Set([...(methodsByPath.get(String(path)) ?? []), ...methods])]);
  return methodsByPath;
}

/** Returns the methods of a partner API path in both services; undefined for other paths. */
export function listPartnerMethods(path: string): string[] | undefined {
  const operationPath = /^\/(?:sandbox|production)\/v1(\/.*)$/.exec(path)?.[1];
  const operations = Object.values(partnerOperations)
    .flatMap(listMounts)
    .filter((operation) => operation.path === operationPath);
  const methods = operations.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
  return methods.length > 0 ? methods : undefined;
}
