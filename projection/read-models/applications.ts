import { installationStreams, partnerApplicationStreams } from "../../shared/domain/events/partner.ts";
import { createUpdateHandler, defineJsonColumn, defineReadModel, toColumns } from "../engine/read-model.ts";

export const applications = defineReadModel({
  table: "partner_application",
  columns: {
    application_id: "uuid",
    environment: "text",
    name: "text",
    scopes: defineJsonColumn<string[]>(),
    revoked: "boolean",
    /** Ids of the active credentials. The hashes of the credentials' secrets are only in the log. */
    credential_ids: defineJsonColumn<string[]>(),
    /** Origins that the operator approved as webhook destinations in production. */
    webhook_origins: defineJsonColumn<string[]>(),
  },
  nullable: [],
  primaryKey: ["application_id"],
  revokingStreams: partnerApplicationStreams,
  auditColumns: ["application_id", "name"],
  indexes: [],
  key: (event) => [event.data.applicationId],
  on: {
    ApplicationRegistered: (_, { data }) => ({
      ...toColumns(data),
      revoked: false,
      credential_ids: [],
      webhook_origins: [],
    }),
    CredentialIssued: createUpdateHandler(({ data }, row) => ({
      credential_ids: [...row.credential_ids, data.credentialId],
    })),
    CredentialRevoked: createUpdateHandler(({ data }, row) => ({
      credential_ids: row.credential_ids.filter((id) => id !== data.credentialId),
    })),
    WebhookOriginApproved: createUpdateHandler(({ data }, row) => ({
      webhook_origins: [...new Set([...row.webhook_origins, data.origin])],
    })),
    WebhookOriginWithdrawn: createUpdateHandler(({ data }, row) => ({
      webhook_origins: row.webhook_origins.filter((origin) => origin !== data.origin),
    })),
    ApplicationRevoked: createUpdateHandler(() => ({ revoked: true })),
  },
});

/**
 * Current generation of each application's sandbox. The data of a sandbox is in the other read models, like the data of
 * any clinic.
 */
export const sandboxes = defineReadModel({
  table: "sandbox",
  columns: {
    application_id: "uuid",
    clinic_id: "uuid",
    generation: "numeric",
    day: "date",
    reset_at: "timestamptz",
    /** Log position of the last reset. */
    reset_position: "bigint",
  },
  nullable: [],
  primaryKey: ["application_id"],
  indexes: ["clinic_id"],
  key: (event) => [event.data.applicationId],
  on: {
    SandboxReset: (_, { data, metadata, position }) => ({
      ...toColumns(data),
      reset_at: metadata.occurredAt,
      reset_position: String(position),
    }),
  },
});

export const installations = defineReadModel({
  table: "installation",
  columns: {
    installation_id: "uuid",
    application_id: "uuid",
    clinic_id: "uuid",
    status: "text",
    scopes: "jsonb",
    branch_ids: "jsonb",
    animal_access: "text",
    rate_limit_per_minute: "numeric",
    /** Log position of the approval. */
    approved_position: "bigint",
    /** Log position of the last change of the scopes or branches. */
    access_position: "bigint",
  },
  nullable: ["branch_ids", "animal_access", "rate_limit_per_minute", "approved_position", "access_position"],
  primaryKey: ["installation_id"],
  revokingStreams: installationStreams,
  auditColumns: ["installation_id", "application_id", "clinic_id"],
  commandColumns: ["application_id", "clinic_id", "branch_ids", "animal_access"],
  indexes: ["application_id, clinic_id", "clinic_id"],
  key: (event) => [event.data.installationId],
  on: {
    InstallationRequested: (_, { data }) => ({
      ...toColumns(data),
      status: "requested",
      branch_ids: null,
      animal_access: null,
      rate_limit_per_minute: null,
      approved_position: null,
      access_position: null,
    }),
    InstallationApproved: (_, { data, position }) => ({
      ...toColumns(data),
      status: "approved",
      approved_position: String(position),
      access_position: String(position),
    }),
    InstallationNarrowed: createUpdateHandler(({ data, position }) => ({
      ...toColumns(data),
      access_position: String(position),
    })),
    InstallationRateLimitAgreed: createUpdateHandler(({ data }) => toColumns(data)),
    InstallationRevoked: createUpdateHandler(() => ({ status: "revoked" })),
  },
});
