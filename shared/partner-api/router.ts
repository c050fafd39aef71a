import type Router from "@koa/router";
import type Koa from "koa";
import { type Environment, environment as environments } from "../domain/events/fields.ts";
import { ApiError } from "../http/api-error.ts";
import { createRouter } from "../http/router.ts";
import { type PartnerOperationId, partnerOperations } from "./operations.ts";

/** What a service does for one operation at one base. */
export type PartnerRoute = (environment: Environment) => Koa.Middleware[];

/**
 * The routes of the partner API that a service offers, at both bases. A path of the API asked with a method that it
 * does not have is 405 with `Allow`, whichever service offers the others.
 */
export function createPartnerRouter(routes: Partial<Record<PartnerOperationId, PartnerRoute>>): Router {
  const router = createRouter();
  const allowed = new Map<string, string[]>();
  for (const { method, path } of Object.values(partnerOperations)) {
    allowed.set(path, [...(allowed.get(path) ?? []), ...(method === "GET" ? ["GET", "HEAD"] : [method])]);
  }
  for (const environment of environments.options) {
    for (const [operationId, route] of Object.entries(routes)) {
      const { method, path } = partnerOperations[operationId as PartnerOperationId];
      router.register(
        `/${environment}/v1${path}`,
        method === "GET" ? ["GET", "HEAD"] : [method],
        route(environment),
      );
    }
    for (const [path, methods] of allowed) {
      router.all(`/${environment}/v1${path}`, () => {
        throw new ApiError(405, "method_not_allowed", { headers: { Allow: methods.join(", ") } });
      });
    }
  }
  return router;
}
