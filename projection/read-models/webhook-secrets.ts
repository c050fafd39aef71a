import { defineReadModel } from "../engine/read-model.ts";

type SecretRow = {
  endpoint_id: string;
  encrypted_secret: string;
  previous_encrypted_secret: string | null;
  /** Until then the former secret signs beside the new one. */
  previous_expires_at: string | null;
};

/** What deliveries are signed with, encrypted. The query side has no access to this table. */
export const webhookSecrets = defineReadModel<SecretRow>()({
  table: "webhook_secret",
  columns: {
    endpoint_id: "uuid",
    encrypted_secret: "text",
    previous_encrypted_secret: "text",
    previous_expires_at: "timestamptz",
  },
  nullable: ["previous_encrypted_secret", "previous_expires_at"],
  primaryKey: ["endpoint_id"],
  indexes: [],
  hidden: true,
  key: (event) => [event.data.endpointId],
  on: {
    WebhookEndpointRegistered: (_, { data }) => ({
      endpoint_id: data.endpointId,
      encrypted_secret: data.encryptedSecret,
      previous_encrypted_secret: null,
      previous_expires_at: null,
    }),
    WebhookSecretRotated: (row, { data }) => ({
      endpoint_id: data.endpointId,
      encrypted_secret: data.encryptedSecret,
      previous_encrypted_secret: row?.encrypted_secret ?? null,
      previous_expires_at: data.previousExpiresAt,
    }),
    WebhookEndpointRevoked: () => undefined,
  },
});
