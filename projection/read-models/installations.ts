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
    rate_limit_per_minute: "numeric",
  },
  nullable: ["branch_ids", "rate_limit_per_minute"],
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
      rate_limit_per_minute: null,
    }),
    InstallationApproved: (_, { data }) => ({ ...toColumns(data), status: "approved" }),
    InstallationNarrowed: createUpdateHandler(({ data }) => toColumns(data)),
    InstallationRateLimitAgreed: createUpdateHandler(({ data }) => toColumns(data)),
    InstallationRevoked: createUpdateHandler(() => ({ status: "revoked" })),
  },
});
