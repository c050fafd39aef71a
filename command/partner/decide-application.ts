import type { Environment } from "../../shared/events/fields.ts";
import type { PartnerApplicationEvent, Scope } from "../../shared/events/partner.ts";
import { DomainError } from "../handle.ts";
import type { Application } from "./application.ts";

type Decision = (state: Application | undefined) => PartnerApplicationEvent[];

/** So many credentials are live at once: enough to change from one to the next without a gap. */
const LIVE_CREDENTIALS = 2;

/** What may be decided about an application. Each refuses with {@link DomainError}; what is so already gives no event. */

export function decideRegisterApplication(data: {
  applicationId: string;
  environment: Environment;
  name: string;
  scopes: Scope[];
}): Decision {
  return (state) => {
    if (state) throw new DomainError("application_exists", "the id belongs to another application already");
    const { applicationId, environment, name } = data;
    const scopes = [...new Set(data.scopes)];
    return [{ type: "ApplicationRegistered", data: { applicationId, environment, name, scopes } }];
  };
}

export function decideIssueCredential(data: { credentialId: string; secretHash: string }): Decision {
  return (state) => {
    const application = live(state);
    if (application.credentials.length >= LIVE_CREDENTIALS) {
      throw new DomainError("too_many_credentials", "two credentials are live already: revoke one first");
    }
    return [{ type: "CredentialIssued", data: { applicationId: application.id, ...data } }];
  };
}

export function decideRevokeCredential(credentialId: string): Decision {
  return (state) => {
    const { id: applicationId, credentials, revokedCredentialIds } = known(state);
    if (revokedCredentialIds.includes(credentialId)) return [];
    if (!credentials.some(({ id }) => id === credentialId)) {
      throw new DomainError("credential_not_found", "the application has no such credential");
    }
    return [{ type: "CredentialRevoked", data: { applicationId, credentialId } }];
  };
}

/** @param url any URL of the origin; user info and everything but scheme, host and port are left out */
export function decideApproveWebhookOrigin(url: string): Decision {
  return (state) => {
    const { id: applicationId, webhookOrigins } = live(state);
    const origin = originOf(url);
    if (webhookOrigins.includes(origin)) return [];
    return [{ type: "WebhookOriginApproved", data: { applicationId, origin } }];
  };
}

export function decideWithdrawWebhookOrigin(url: string): Decision {
  return (state) => {
    const { id: applicationId, webhookOrigins } = known(state);
    const origin = originOf(url);
    if (!webhookOrigins.includes(origin)) return [];
    return [{ type: "WebhookOriginWithdrawn", data: { applicationId, origin } }];
  };
}

/** A revoked application stays revoked. */
export function decideRevokeApplication(reason: string | null): Decision {
  return (state) => {
    const { id: applicationId, revoked } = known(state);
    return revoked ? [] : [{ type: "ApplicationRevoked", data: { applicationId, reason } }];
  };
}

function originOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed && /^https?:$/.test(parsed.protocol)) return parsed.origin;
  throw new DomainError("invalid_origin", "an origin is like https://hooks.example.com");
}

function known(state: Application | undefined): Application {
  if (!state) throw new DomainError("application_not_found", "there is no such application");
  return state;
}

function live(state: Application | undefined): Application {
  const application = known(state);
  if (application.revoked) throw new DomainError("application_revoked", "the application is revoked");
  return application;
}
