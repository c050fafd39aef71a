import { type EncryptedHeader, webhookEndpointStreams } from "../../shared/domain/events/partner.ts";
import { changesDisabling } from "../../shared/domain/partner/webhook-endpoint.ts";
import { createUpdateHandler, defineJsonColumn, defineReadModel, toColumns } from "../engine/read-model.ts";

export const webhookEndpoints = defineReadModel({
  table: "webhook_endpoint",
  columns: {
    endpoint_id: "uuid",
    application_id: "uuid",
    /** Null if the endpoint belongs to the application. */
    clinic_id: "uuid",
    /** Clinic or application whose events the endpoint receives. */
    owner_id: "uuid",
    environment: "text",
    url: "text",
    /** Scheme, host and port of the URL. In production, an operator must approve the origin for the application. */
    origin: "text",
    events: "jsonb",
    operational_events: "jsonb",
    /** Branches whose events the endpoint receives; null for all branches of the installation. */
    branch_ids: "jsonb",
    header_names: "jsonb",
    /** Null for no limit. */
    rate_limit_per_second: "numeric",
    /** `none` or `appointment`. */
    ordering: "text",
    /** `standard` or `cloudevents`. */
    body_format: "text",
    asymmetric_signature: "boolean",
    status: "text",
    disabled_reason: "text",
    enabled_at: "timestamptz",
    /** Null before the first rotation, and after the revocation. */
    former_secret_expires_at: "timestamptz",
    /** Log position of the registration. The endpoint receives no earlier events. */
    registered_position: "bigint",
    created_at: "timestamptz",
    updated_at: "timestamptz",
  },
  nullable: ["clinic_id", "branch_ids", "rate_limit_per_second", "disabled_reason", "former_secret_expires_at"],
  primaryKey: ["endpoint_id"],
  revokingStreams: webhookEndpointStreams,
  auditColumns: ["endpoint_id", "clinic_id", "origin"],
  // A partner can register and revoke endpoints without limit. Lists and the search for receivers skip the revoked ones.
  indexes: [
    "owner_id, application_id, environment, (status = 'revoked'), created_at DESC, endpoint_id",
    { columns: "owner_id", where: "status <> 'revoked'" },
  ],
  key: (event) => [event.data.endpointId],
  on: {
    WebhookEndpointRegistered: (_, { data, metadata, position }) => ({
      ...toColumns(data),
      owner_id: data.clinicId ?? data.applicationId,
      origin: new URL(data.url).origin,
      operational_events: [],
      branch_ids: null,
      header_names: [],
      rate_limit_per_second: null,
      ordering: "none",
      body_format: "standard",
      asymmetric_signature: false,
      status: "active",
      disabled_reason: null,
      enabled_at: metadata.occurredAt,
      former_secret_expires_at: null,
      registered_position: String(position),
      created_at: metadata.occurredAt,
      updated_at: metadata.occurredAt,
    }),
    WebhookSecretRotated: createUpdateHandler(({ data: { previousExpiresAt: expiresAt }, metadata }, row) => ({
      // Secrets from earlier rotations keep their expiry times.
      former_secret_expires_at:
        (row.former_secret_expires_at ?? "") > expiresAt ? row.former_secret_expires_at : expiresAt,
      updated_at: metadata.occurredAt,
    })),
    WebhookEndpointChanged: createUpdateHandler(({ data: { endpointId: _, headers, ...settings }, metadata }) => ({
      ...toColumns(settings),
      ...(settings.url !== undefined && { origin: new URL(settings.url).origin }),
      ...(headers && { header_names: headers.map(({ name }) => name) }),
      updated_at: metadata.occurredAt,
    })),
    WebhookEndpointDisabled: createUpdateHandler(({ data, metadata }, row) =>
      changesDisabling({ status: row.status, disabledReason: row.disabled_reason }, data.reason)
        ? { status: "disabled", disabled_reason: data.reason, updated_at: metadata.occurredAt }
        : {},
    ),
    WebhookEndpointEnabled: createUpdateHandler(({ metadata }, row) =>
      row.status === "disabled"
        ? {
            status: "active",
            disabled_reason: null,
            enabled_at: metadata.occurredAt,
            updated_at: metadata.occurredAt,
          }
        : {},
    ),
    WebhookEndpointRevoked: createUpdateHandler(({ metadata }) => ({
      status: "revoked",
      disabled_reason: null,
      former_secret_expires_at: null,
      updated_at: metadata.occurredAt,
    })),
    // Other read models record these events. The engine compares their clinic with that of the endpoint.
    WebhookEndpointTested: (row) => row,
    WebhookEndpointFailureReported: (row) => row,
    WebhookSecretExpiryReported: (row) => row,
  },
});

/** A replaced secret. Until `expiresAt`, deliveries are signed with both this secret and the current secret. */
export type FormerSecret = {
  secretId: string;
  encryptedSecret: string;
  expiresAt: string;
  rotationId: string;
  correlationId: string;
  isReported: boolean;
};

/** Limits the length of the signature header, which has one signature for each valid secret. */
const MAX_FORMER_SECRETS = 8;

/** Signing secrets and encrypted custom headers of endpoints. The query API cannot read this table. */
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
      ...toColumns(data),
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

/** Bulk replays. The webhooks role replays the deliveries of each unfinished bulk replay. */
export const webhookReplays = defineReadModel({
  table: "webhook_replay",
  columns: {
    replay_id: "uuid",
    endpoint_id: "uuid",
    application_id: "uuid",
    clinic_id: "uuid",
    environment: "text",
    since: "timestamptz",
    until: "timestamptz",
    statuses: "jsonb",
    delivery_ids: "jsonb",
    /** Id and log position of the request. */
    request_id: "uuid",
    position: "bigint",
    correlation_id: "uuid",
    requested_at: "timestamptz",
    /** `completed` or `stopped`; null until the replay has ended. */
    outcome: "text",
    replayed_count: "numeric",
    not_replayed_count: "numeric",
    finished_at: "timestamptz",
  },
  nullable: ["clinic_id", "since", "delivery_ids", "outcome", "finished_at"],
  primaryKey: ["replay_id"],
  indexes: [
    { columns: "application_id", where: "outcome IS NULL" },
    { columns: "position", where: "outcome IS NULL" },
  ],
  key: (event) => [event.data.replayId],
  on: {
    WebhookReplayRequested: (_, { id, data: { requestHash: __, ...request }, metadata, position }) => ({
      ...toColumns(request),
      request_id: id,
      position: String(position),
      correlation_id: metadata.$correlationId,
      requested_at: metadata.occurredAt,
      outcome: null,
      replayed_count: 0,
      not_replayed_count: 0,
      finished_at: null,
    }),
    WebhookReplayCompleted: createUpdateHandler(({ data, metadata }) => ({
      ...toColumns(data),
      finished_at: metadata.occurredAt,
    })),
  },
});
