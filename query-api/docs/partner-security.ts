import { buildAudience } from "../../shared/auth/access-token.ts";
import { type Environment, environment as environments } from "../../shared/domain/events/fields.ts";
import type { Scope } from "../../shared/domain/events/partner.ts";
import { partnerOperations } from "../../shared/partner-api/operations.ts";
import type { OpenApiDocument, Operation, Server } from "./openapi.ts";

const environmentNames: Readonly<Record<Environment, string>> = {
  sandbox: "Sandbox",
  production: "Production",
};

const scopeDescriptions: Readonly<Record<Scope, string>> = {
  "clinic:read": "Read the clinic context",
  "appointments:read": "Read appointments",
  "appointments:write": "Create appointments",
  "animals:link": "Link animals with their owners' consent",
  "webhooks:read": "Read webhook endpoints and deliveries",
  "webhooks:write": "Manage webhook endpoints and replay deliveries",
  "sandbox:read": "Read the state of the sandbox",
  "sandbox:write": "Reset the sandbox",
};

export function describeServers(
  origin: string,
  includedEnvironments: readonly Environment[] = environments.options,
): Server[] {
  return includedEnvironments.map((environment) => ({
    url: buildAudience(origin, environment),
    description: environmentNames[environment],
  }));
}

const BASIC_SCHEME_NAME = "applicationCredentials";

const basicScheme = {
  type: "http",
  scheme: "basic",
  description:
    "Client id and client secret of the application. Only token requests with a form can use this scheme. Alternatively, send the credentials in the body.",
};

/** Describes one scheme for access tokens per environment, because a token is valid in only one environment. */
export function describeSecuritySchemes(origin: string): OpenApiDocument["components"]["securitySchemes"] {
  const schemes = environments.options.map((environment) => [
    toSchemeName(environment),
    {
      type: "oauth2",
      description: `Bearer token for the ${environment} environment, valid for 900 seconds.`,
      flows: {
        clientCredentials: {
          tokenUrl: `${buildAudience(origin, environment)}${partnerOperations.exchangeToken.path}`,
          scopes: scopeDescriptions,
        },
      },
    },
  ]);
  return { ...Object.fromEntries(schemes), [BASIC_SCHEME_NAME]: basicScheme };
}

/**
 * Lists the alternative security schemes of an operation, one for each environment.
 *
 * @param scope null for the token operation, whose credentials are in the body or in the Authorization header
 */
export function describeSecurity(
  scope: Scope | null,
  includedEnvironments: readonly Environment[],
): Operation["security"] {
  if (scope === null) return [{}, { [BASIC_SCHEME_NAME]: [] }];
  return includedEnvironments.map((environment) => ({ [toSchemeName(environment)]: [scope] }));
}

function toSchemeName(environment: Environment): string {
  return `${environment}Token`;
}
