import type { EncryptedHeader } from "../../shared/domain/events/partner.ts";
import { createUpdateHandler, defineJsonColumn, defineReadModel } from "../engine/read-model.ts";

/** A replaced secret. Until `expiresAt`, deliveries are signed with both this secret and the current secret. */
export type FormerSecret = {
  secretId: string;
  encryptedSecret: string;
  expiresAt: string;
  rotationId: string;
  correlationId: string;
  isReported: boolean;
};

/** Each former secret makes the signature header longer. */
const MAX_FORMER_SECRETS = 8;

/** Signing of deliveries, and encrypted custom headers of endpoints. The query API cannot read this table. */
export const webhookSecrets = defineReadModel({
  table: "webhook_secret",
  columns: {
    endpoint_id: "uuid",
    secret_id: "uuid",
    encrypted_secret: "text",
    /** Latest first. */
    former_secrets: defineJsonColumn<FormerSecret[]>(),
    headers: defineJsonColumn<EncryptedHeader[]>(),
    /** True if deliveries also have an asymmetric signature. */
    asymmetric_signature: "boolean",
  },
  nullable: [],
  primaryKey: ["endpoint_id"],
  indexes: [],
  isHidden: true,
  key: (event) => [event.data.endpointId],
  on: {
    WebhookEndpointRegistered: (_, { data }) => ({
      endpoint_id: data.endpointId,
      secret_id: data.secretId,
      encrypted_secret: data.encryptedSecret,
      former_secrets: [],
      headers: [],
      asymmetric_signature: false,
    }),
    WebhookEndpointChanged: createUpdateHandler(({ data: { headers, asymmetricSignature } }) => ({
      ...(headers && { headers }),
      ...(asymmetricSignature !== undefined && { asymmetric_signature: asymmetricSignature }),
    })),
    WebhookSecretRotated: (row, { id: rotationId, data, metadata }) => {
      const previousSecret = row && {
        secretId: row.secret_id,
        encryptedSecret: row.encrypted_secret,
        expiresAt: data.previousExpiresAt,
        rotationId,
        correlationId: metadata.$correlationId,
        isReported: false,
      };
      const formerSecrets = [...(previousSecret ? [previousSecret] : []), ...(row?.former_secrets ?? [])];
      // Secrets from earlier rotations keep their expiry times.
      const signingSecrets = formerSecrets.filter(({ expiresAt }) => expiresAt > metadata.occurredAt);
      return {
        endpoint_id: data.endpointId,
        secret_id: data.secretId,
        encrypted_secret: data.encryptedSecret,
        former_secrets: signingSecrets.slice(0, MAX_FORMER_SECRETS),
        headers: row?.headers ?? [],
        asymmetric_signature: row?.asymmetric_signature ?? false,
      };
    },
    WebhookSecretExpiryReported: createUpdateHandler(({ data }, row) => ({
      former_secrets: row.former_secrets.map((secret) =>
        secret.secretId === data.secretId ? { ...secret, isReported: true } : secret,
      ),
    })),
    WebhookEndpointRevoked: () => undefined,
  },
});
