import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import type { DataOf } from "../events/category.ts";
import type { Environment } from "../events/fields.ts";
import { type PartnerApplicationEvent, partnerApplicationStreams, type Scope } from "../events/partner.ts";
import { requireExisting } from "../preconditions.ts";

export interface Credential {
  id: string;
  /** SHA-256 of the secret, hex. */
  secretHash: string;
}

/** State of a partner application. */
export interface Application {
  id: string;
  environment: Environment;
  name: string;
  scopes: Scope[];
  /** Active credentials, oldest first. */
  credentials: Credential[];
  /** Ids of revoked credentials. */
  revokedCredentialIds: string[];
  /** Origins that the operator has approved as webhook destinations. */
  webhookOrigins: string[];
  revoked: boolean;
}

export const applicationAggregate: Aggregate<typeof partnerApplicationStreams, Application> = {
  category: partnerApplicationStreams,
  evolve(state, event) {
    if (event.type === "ApplicationRegistered") {
      const { applicationId: id, environment, name, scopes } = event.data;
      const emptyLists = { credentials: [], revokedCredentialIds: [], webhookOrigins: [] };
      return { id, environment, name, scopes, ...emptyLists, revoked: false };
    }
    if (!state) return undefined;
    switch (event.type) {
      case "CredentialIssued": {
        const { credentialId: id, secretHash } = event.data;
        return { ...state, credentials: [...state.credentials, { id, secretHash }] };
      }
      case "CredentialRevoked": {
        const { credentialId } = event.data;
        const credentials = state.credentials.filter(({ id }) => id !== credentialId);
        const revokedCredentialIds = [...state.revokedCredentialIds, credentialId];
        return { ...state, credentials, revokedCredentialIds };
      }
      case "WebhookOriginApproved":
        return { ...state, webhookOrigins: [...state.webhookOrigins, event.data.origin] };
      case "WebhookOriginWithdrawn": {
        const { origin } = event.data;
        return { ...state, webhookOrigins: state.webhookOrigins.filter((approvedOrigin) => approvedOrigin !== origin) };
      }
      case "ApplicationRevoked":
        return { ...state, revoked: true };
    }
  },
};

type ApplicationDecision = Decision<Application, PartnerApplicationEvent>;

/** Maximum number of active credentials of an application. Two credentials allow a rotation without downtime. */
const MAX_ACTIVE_CREDENTIALS = 2;

export function decideRegisterApplication(
  data: DataOf<PartnerApplicationEvent, "ApplicationRegistered">,
): ApplicationDecision {
  return (state) => {
    if (state) throw new DomainError("application_exists", "the id already belongs to another application");
    const { applicationId, environment, name } = data;
    const scopes = [...new Set(data.scopes)];
    return [{ type: "ApplicationRegistered", data: { applicationId, environment, name, scopes } }];
  };
}

export function decideIssueCredential(
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

export function decideRevokeCredential(credentialId: string): ApplicationDecision {
  return (state) => {
    const { id: applicationId, credentials, revokedCredentialIds } = requireExisting(state, "application");
    if (revokedCredentialIds.includes(credentialId)) return [];
    if (!credentials.some(({ id }) => id === credentialId)) {
      throw new DomainError("credential_not_found", "the application has no such credential");
    }
    return [{ type: "CredentialRevoked", data: { applicationId, credentialId } }];
  };
}

/**
 * Approves an origin as a webhook destination.
 *
 * @param url any URL of the origin; path and query are ignored
 */
export function decideApproveWebhookOrigin(url: string): ApplicationDecision {
  return (state) => {
    const { id: applicationId, webhookOrigins } = requireActiveApplication(state);
    const origin = parseOrigin(url);
    if (webhookOrigins.includes(origin)) return [];
    return [{ type: "WebhookOriginApproved", data: { applicationId, origin } }];
  };
}

export function decideWithdrawWebhookOrigin(url: string): ApplicationDecision {
  return (state) => {
    const { id: applicationId, webhookOrigins } = requireExisting(state, "application");
    const origin = parseOrigin(url);
    if (!webhookOrigins.includes(origin)) return [];
    return [{ type: "WebhookOriginWithdrawn", data: { applicationId, origin } }];
  };
}

/** Revokes an application permanently. */
export function decideRevokeApplication(reason: string | null): ApplicationDecision {
  return (state) => {
    const { id: applicationId, revoked } = requireExisting(state, "application");
    return revoked ? [] : [{ type: "ApplicationRevoked", data: { applicationId, reason } }];
  };
}

function parseOrigin(url: string): string {
  const parsedUrl = URL.canParse(url) ? new URL(url) : undefined;
  if (parsedUrl && /^https?:$/.test(parsedUrl.protocol)) return parsedUrl.origin;
  throw new DomainError("invalid_origin", "an origin must have the form https://hooks.example.com");
}

function requireActiveApplication(state: Application | undefined): Application {
  const application = requireExisting(state, "application");
  if (application.revoked) throw new DomainError("application_revoked", "the application is revoked");
  return application;
}
