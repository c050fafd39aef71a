import { audience } from "../../shared/auth/access-token.ts";
import { type Environment, environment as environments } from "../../shared/domain/events/fields.ts";
import type { Scope } from "../../shared/domain/events/partner.ts";
import { partnerOperations } from "../../shared/partner-api/operations.ts";
import type { OpenApiDocument, Operation, Server } from "./openapi.ts";

const names: Readonly<Record<Environment, string>> = { sandbox: "Sandbox", production: "Production" };

const scopes: Readonly<Record<Scope, string>> = {
  "clinic:read": "Read the clinic's context",
  "appointments:read": "Read appointments",
  "appointments:write": "Request appointments",
  "webhooks:read": "Read webhook endpoints and deliveries",
  "webhooks:write": "Manage webhook endpoints, and replay deliveries",
  "sandbox:read": "Read the sandbox's state",
  "sandbox:write": "Reset the sandbox",
};

/** The bases of the environments. */
export function partnerServers(origin: string, of: readonly Environment[] = environments.options): Server[] {
  return of.map((environment) => ({ url: audience(origin, environment), description: names[environment] }));
}

/** One for each environment, since neither takes the other's credentials or tokens. */
export function partnerSecuritySchemes(origin: string): OpenApiDocument["components"]["securitySchemes"] {
  const schemes = environments.options.map((environment) => [
    schemeName(environment),
    {
      type: "oauth2",
      description: `${names[environment]}: a Bearer token, good for 900 seconds. The token operation takes JSON.`,
      flows: {
        clientCredentials: {
          tokenUrl: `${audience(origin, environment)}${partnerOperations.exchangeToken.path}`,
          scopes,
        },
      },
    },
  ]);
  return Object.fromEntries(schemes);
}

/** A token of any of the environments that serve the operation, with its scope. */
export function security(scope: Scope | null, of: readonly Environment[]): Operation["security"] {
  return scope ? of.map((environment) => ({ [schemeName(environment)]: [scope] })) : [];
}

function schemeName(environment: Environment): string {
  return `${environment}Token`;
}
