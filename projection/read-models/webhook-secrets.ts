import { defineReadModel } from "../engine/read-model.ts";

/** A secret that was rotated, and until when it signs beside the current one. */
export type FormerSecret = { encryptedSecret: string; expiresAt: string };

type SecretRow = {
  endpoint_id: string;
  encrypted_secret: string;
  /** The latest first. */
  former_secrets: FormerSecret[];
};

/** So many former secrets sign at the most: each makes the signature header longer. */
const MAX_FORMER_SECRETS = 8;

/** What deliveries are signed with, encrypted. The query side has no access to this table. */
export const webhookSecrets = defineReadModel<SecretRow>()({
  table: "webhook_secret",
  columns: { endpoint_id: "uuid", encrypted_secret: "text", former_secrets: "jsonb" },
  nullable: [],
  primaryKey: ["endpoint_id"],
  indexes: [],
  hidden: true,
  key: (event) => [event.data.endpointId],
  on: {
    WebhookEndpointRegistered: (_, { data }) => ({
      endpoint_id: data.endpointId,
      encrypted_secret: data.encryptedSecret,
      former_secrets: [],
    }),
    WebhookSecretRotated: (row, { data, metadata }) => {
      const rotated = row && { encryptedSecret: row.encrypted_secret, expiresAt: data.previousExpiresAt };
      const former = [...(rotated ? [rotated] : []), ...(row?.former_secrets ?? [])];
      // A later rotation does not cut an earlier one's overlap short.
      const signing = former.filter(({ expiresAt }) => expiresAt > metadata.occurredAt);
      return {
        endpoint_id: data.endpointId,
        encrypted_secret: data.encryptedSecret,
        former_secrets: signing.slice(0, MAX_FORMER_SECRETS),
      };
    },
    WebhookEndpointRevoked: () => undefined,
  },
});
