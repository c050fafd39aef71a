import { type Aggregate, createRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import type { DataOf } from "../events/category.ts";
import type { Environment } from "../events/fields.ts";
import { type PartnerApplicationEvent, partnerApplicationStreams, type Scope } from "../events/partner.ts";
import { refuseExisting, requireExisting } from "../preconditions.ts";

export interface Credential {
  id: string;
  /** SHA-256 of the secret, hex. */
  secretHash: string;
}

export interface Application {
  id: string;
  environment: Environment;
  name: string;
  scopes: Scope[];
  /** Active credentials, oldest first. */
  credentials: Credential[];
  revokedCredentialIds: string[];
  /** Origins that the operator has approved as webhook destinations. */
  webhookOrigins: string[];
  revoked: boolean;
}

export const applicationAggregate: Aggregate<typeof partnerApplicationStreams, Application> = defineAggregate(
  partnerApplicationStreams,
  {
    ApplicationRegistered({ applicationId: id, environment, name, scopes }) {
      const emptyLists = { credentials: [], revokedCredentialIds: [], webhookOrigins: [] };
      return { id, environment, name, scopes, ...emptyLists, revoked: false };
    },
  },
  {
    CredentialIssued: ({ credentialId: id, secretHash }, { credentials }) => ({
      credentials: [...credentials, { id, secretHash }],
    }),
    CredentialRevoked: ({ credentialId }, { credentials, revokedCredentialIds }) => ({
      credentials: credentials.filter(({ id }) => id !== credentialId),
      revokedCredentialIds: [...revokedCredentialIds, credentialId],
    }),
    WebhookOriginApproved: ({ origin }, { webhookOrigins }) => ({ webhookOrigins: [...webhookOrigins, origin] }),
    WebhookOriginWithdrawn: ({ origin }, { webhookOrigins }) => ({
      webhookOrigins: webhookOrigins.filter((approvedOrigin) => approvedOrigin !== origin),
    }),
    ApplicationRevoked: () => ({ revoked: true }),
  },
);

type ApplicationDecision = Decision<Application, PartnerApplicationEvent>;

/** Maximum number of active credentials of an application. Two credentials allow a rotation without downtime. */
const MAX_ACTIVE_CREDENTIALS = 2;

export function registerApplication(
  data: DataOf<PartnerApplicationEvent, "ApplicationRegistered">,
): ApplicationDecision {
  return (state) => {
    refuseExisting(state, "application");
    const { applicationId, environment, name } = data;
    const scopes = [...new Set(data.scopes)];
    return [{ type: "ApplicationRegistered", data: { applicationId, environment, name, scopes } }];
  };
}

export function issueCredential(
  data: Omit<DataOf<PartnerApplicationEvent, "CredentialIssued">, "applicationId">,
): ApplicationDecision {
  return (state) => {
    const application = requireActiveApplication(state);
    if (application.credentials.length >= MAX_ACTIVE_CREDENTIALS) {
      throw new DomainError("too_many_credentials", "there are already two active credentials; revoke one first");
    }
    return [{ type: "CredentialIssued", data: { applicationId: application.id, ...data } }];
  };
}

const requireExistingApplication = (state: Application | undefined) => requireExisting(state, "application");

const recordIf = createRecorder(applicationAggregate, requireExistingApplication);

export const revokeCredential = recordIf("CredentialRevoked", (application, { credentialId }) => {
  if (application.revokedCredentialIds.includes(credentialId)) return false;
  if (application.credentials.some(({ id }) => id === credentialId)) return true;
  throw new DomainError("credential_not_found", "the application has no such credential");
});

type OriginReference = { applicationId: string; origin: string };

/** Approves an origin as a webhook destination. Path and query of a URL are ignored. */
export function approveWebhookOrigin({ applicationId, origin: url }: OriginReference): ApplicationDecision {
  return (state) => {
    const { webhookOrigins } = requireActiveApplication(state);
    const origin = parseOrigin(url);
    return webhookOrigins.includes(origin) ? [] : [{ type: "WebhookOriginApproved", data: { applicationId, origin } }];
  };
}

export function withdrawWebhookOrigin({ applicationId, origin: url }: OriginReference): ApplicationDecision {
  return (state) => {
    const { webhookOrigins } = requireExistingApplication(state);
    const origin = parseOrigin(url);
    return webhookOrigins.includes(origin) ? [{ type: "WebhookOriginWithdrawn", data: { applicationId, origin } }] : [];
  };
}

/** Revokes an application permanently. */
export const revokeApplication = recordIf("ApplicationRevoked", ({ revoked }) => !revoked);

function parseOrigin(url: string): string {
  const parsedUrl = URL.canParse(url) ? new URL(url) : undefined;
  if (parsedUrl && /^https?:$/.test(parsedUrl.protocol)) return parsedUrl.origin;
  throw new DomainError("invalid_origin", "an origin must have the form https://hooks.example.com");
}

/** @throws {DomainError} `application_not_found`, `application_revoked` */
export function requireActiveApplication(state: Application | undefined): Application {
  const application = requireExisting(state, "application");
  if (application.revoked) throw new DomainError("application_revoked", "the application is revoked");
  return application;
}
