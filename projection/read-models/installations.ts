import { installationStreams } from "../../shared/domain/events/partner.ts";
import { createUpdateHandler, defineReadModel, toColumns } from "../engine/read-model.ts";

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
  indexes: ["application_id, clinic_id"],
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
