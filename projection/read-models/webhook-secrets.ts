import type { EncryptedHeader } from "../../shared/domain/events/partner.ts";
import { createUpdateHandler, defineJsonColumn, defineReadModel } from "../engine/read-model.ts";

/** A former secret. Until `expiresAt`, deliveries are signed with both this secret and the current secret. */
export type FormerSecret = { encryptedSecret: string; expiresAt: string };

/** Maximum number of former secrets. Each former secret makes the signature header longer. */
const MAX_FORMER_SECRETS = 8;

/** Encrypted signing secrets and custom headers of endpoints. The query API cannot read this table. */
export const webhookSecrets = defineReadModel({
  table: "webhook_secret",
  columns: {
    endpoint_id: "uuid",
    encrypted_secret: "text",
    /** Latest first. */
    former_secrets: defineJsonColumn<FormerSecret[]>(),
    /** Custom headers of all requests to the endpoint. */
    headers: defineJsonColumn<EncryptedHeader[]>(),
  },
  nullable: [],
  primaryKey: ["endpoint_id"],
  indexes: [],
  isHidden: true,
  key: (event) => [event.data.endpointId],
  on: {
    WebhookEndpointRegistered: (_, { data }) => ({
      endpoint_id: data.endpointId,
      encrypted_secret: data.encryptedSecret,
      former_secrets: [],
      headers: [],
    }),
    WebhookEndpointChanged: createUpdateHandler(({ data: { headers } }) => (headers ? { headers } : {})),
    WebhookSecretRotated: (row, { data, metadata }) => {
      const previousSecret = row && { encryptedSecret: row.encrypted_secret, expiresAt: data.previousExpiresAt };
      const formerSecrets = [...(previousSecret ? [previousSecret] : []), ...(row?.former_secrets ?? [])];
      // Secrets from earlier rotations keep their expiry times.
      const signingSecrets = formerSecrets.filter(({ expiresAt }) => expiresAt > metadata.occurredAt);
      return {
        endpoint_id: data.endpointId,
        encrypted_secret: data.encryptedSecret,
        former_secrets: signingSecrets.slice(0, MAX_FORMER_SECRETS),
        headers: row?.headers ?? [],
      };
    },
    WebhookEndpointRevoked: () => undefined,
  },
});
