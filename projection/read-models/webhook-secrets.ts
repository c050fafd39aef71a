import { defineReadModel } from "../engine/read-model.ts";

/** A former secret, and the time until which it signs together with the current one. */
export type FormerSecret = { encryptedSecret: string; expiresAt: string };

type SecretRow = {
  endpoint_id: string;
  encrypted_secret: string;
  /** Latest first. */
  former_secrets: FormerSecret[];
};

/** Most former secrets, because each makes the signature header longer. */
const MAX_FORMER_SECRETS = 8;

/** Encrypted signing secrets of endpoints. The query API cannot read this table. */
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
      // A later rotation does not shorten the overlap of an earlier one.
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
