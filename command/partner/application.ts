import type { Environment } from "../../shared/events/fields.ts";
import { partnerApplicationCategory, type Scope } from "../../shared/events/partner.ts";
import type { Aggregate } from "../handle.ts";

export interface Credential {
  id: string;
  /** SHA-256 of the secret, hex. */
  secretHash: string;
}

/** A partner's application as its events tell it. */
export interface Application {
  id: string;
  environment: Environment;
  name: string;
  scopes: Scope[];
  /** Those that are live, oldest first. */
  credentials: Credential[];
  /** Ids of credentials that were revoked: they never come back. */
  revokedCredentialIds: string[];
  /** Origins that the operator approved as webhook destinations. */
  webhookOrigins: string[];
  revoked: boolean;
}

export const applicationAggregate: Aggregate<typeof partnerApplicationCategory, Application> = {
  category: partnerApplicationCategory,
  evolve(state, event) {
    if (event.type === "ApplicationRegistered") {
      const { applicationId: id, environment, name, scopes } = event.data;
      const none = { credentials: [], revokedCredentialIds: [], webhookOrigins: [] };
      return { id, environment, name, scopes, ...none, revoked: false };
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
        return { ...state, webhookOrigins: state.webhookOrigins.filter((known) => known !== origin) };
      }
      case "ApplicationRevoked":
        return { ...state, revoked: true };
    }
  },
};
