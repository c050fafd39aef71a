import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { z } from "zod";
import { findUpstream, type Upstream } from "../../../deploy/local/gateway/gateway-server.ts";
import { listRoutes } from "../../support/routed-apps.ts";
import { readYaml } from "./containers.ts";

/** Returns the service to which an ingress sends a request. */
type FindService = (method: string, path: string) => Upstream | undefined;

const SERVICES: Record<string, Upstream> = {
  ...{ command: "command", "query-api": "queryApi", audit: "audit" },
  // Ports of the services on the machines.
  ...{ "8081": "command", "8082": "queryApi", "8085": "audit" },
};

/** Interprets the subset of the Caddyfile syntax that the product's files use: matchers and reverse proxies. */
function readCaddyfile(folder: string): FindService {
  const text = readFileSync(join(import.meta.dirname, "../../../deploy", folder, "Caddyfile"), "utf8");
  const matchers = new Map(
    [...text.matchAll(/^\t@(\w+) (?:\{\n([^}]*)\}|(path .*))$/gm)].map(([, name = "", block, line]) => {
      const rules = (block ?? line ?? "").trim().split(/\s*\n\s*/);
      return [name, rules.map((rule) => rule.split(" "))];
    }),
  );
  const matches = ([kind, ...values]: string[], method: string, path: string): boolean => {
    if (kind === "not") return !matches(values, method, path);
    if (kind === "method") return values.includes(method);
    expect(kind).to.equal("path");
    return values.some((value) => (value.endsWith("*") ? path.startsWith(value.slice(0, -1)) : path === value));
  };
  const targets = [...text.matchAll(/^\t\treverse_proxy (?:@(\w+) )?(\S+?):(\d+)/gm)];
  return (method, path) => {
    const target = targets.find(
      ([, name]) => name === undefined || matchers.get(name)?.every((rule) => matches(rule, method, path)),
    );
    return SERVICES[target?.[2] ?? ""] ?? SERVICES[target?.[3] ?? ""];
  };
}

const routeSchema = z.object({
  spec: z.object({
    rules: z.array(
      z.object({
        matches: z.array(
          z.object({
            path: z.object({ type: z.enum(["Exact", "PathPrefix"]), value: z.string() }),
            method: z.string().optional(),
          }),
        ),
        backendRefs: z.tuple([z.object({ name: z.string() })]),
      }),
    ),
  }),
});

/** Interprets an HTTPRoute. Precedence of matches: exact path, then longest prefix, then a match with a method. */
function readHttpRoute(): FindService {
  const { rules } = routeSchema.parse(readYaml("kubernetes/gateway.yaml")[1]).spec;
  const routes = rules.flatMap(({ matches, backendRefs: [{ name }] }) => matches.map((match) => ({ ...match, name })));
  const rank = ({ path, method }: (typeof routes)[number]) =>
    (path.type === "Exact" ? 10_000 : 0) + 2 * path.value.length + (method === undefined ? 0 : 1);
  return (method, path) => {
    const matchingRoutes = routes.filter(({ path: { type, value }, method: requiredMethod }) => {
      const prefix = value.replace(/\/$/, "");
      const isPath = path === value || (type === "PathPrefix" && `${path}/`.startsWith(`${prefix}/`));
      return isPath && (requiredMethod === undefined || requiredMethod === method);
    });
    return SERVICES[matchingRoutes.sort((a, b) => rank(b) - rank(a))[0]?.name ?? ""];
  };
}

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

const ingresses: Record<string, FindService> = {
  "the local gateway": findUpstream,
  "the ingress of compose": readCaddyfile("container"),
  "the ingress of machines": readCaddyfile("machines"),
  "the ingress of Kubernetes": readHttpRoute(),
};

describe("the ingresses", () => {
  const services = ["command", "queryApi", "audit"] as const;
  for (const [name, findService] of Object.entries(ingresses)) {
    it(`${name} sends each request to the service that handles it`, () => {
      for (const service of services)
        for (const [path, methods] of listRoutes(service))
          for (const method of methods) expect(findService(method, path), `${method} ${path}`).to.equal(service);
    });

    it(`${name} sends every other method of a path to a service that knows the path`, () => {
      const paths = services.flatMap((service) => [...listRoutes(service).keys()]);
      for (const path of paths) {
        const knowingServices = services.filter((service) => listRoutes(service).has(path));
        const isPartnerPath = /^\/(sandbox|production)\/v1\//.test(path);
        for (const method of METHODS) {
          // Both services know all paths of the partner API.
          const expected = isPartnerPath ? ["command", "queryApi"] : knowingServices;
          expect(expected, `${method} ${path}`).to.include(findService(method, path));
        }
      }
    });
  }
});
