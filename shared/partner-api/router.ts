import type Router from "@koa/router";
import type Koa from "koa";
import { type Environment, environment as environments } from "../domain/events/fields.ts";
import { createMethodError, createRouter, READ_METHODS } from "../http/router.ts";
import { listMounts, type PartnerOperation, type PartnerOperationId, partnerOperations } from "./operations.ts";

type PartnerRoute = (operation: PartnerOperation, environment: Environment) => Koa.Middleware[];

/**
 * Creates a router that serves operations in both environments. Returns 405 for a method that a path does not support.
 * The `Allow` header lists all methods of the path, including those that another service handles.
 */
export function createPartnerRouter(routes: Partial<Record<PartnerOperationId, PartnerRoute>>): Router {
  const router = createRouter();
  const methodsByPath = new Map<string, string[]>();
  for (const { method, path } of Object.values(partnerOperations).flatMap(listMounts)) {
    methodsByPath.set(path, [...(methodsByPath.get(path) ?? []), ...listRoutedMethods(method)]);
  }
  for (const environment of environments.options) {
    for (const [operationId, route] of Object.entries(routes)) {
      for (const operation of listMounts(partnerOperations[operationId as PartnerOperationId])) {
        const { method, path } = operation;
        router.register(`/${environment}/v1${path}`, listRoutedMethods(method), route(operation, environment), {
          name: `partner.${operationId}`,
        });
      }
    }
    for (const [path, methods] of methodsByPath) {
      router.all(`/${environment}/v1${path}`, () => {
        throw createMethodError(methods);
      });
    }
  }
  return router;
}

function listRoutedMethods(method: string): string[] {
  return method === "GET" ? READ_METHODS : [method];
}
