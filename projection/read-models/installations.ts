import { createUpdateHandler, defineReadModel } from "../engine/read-model.ts";

export const installations = defineReadModel({
  table: "installation",
  columns: {
    installation_id: "uuid",
    application_id: "uuid",
    clinic_id: "uuid",
    status: "text",
    scopes: "jsonb",
    branch_ids: "jsonb",
    rate_limit_per_minute: "integer",
  },
  nullable: ["branch_ids", "rate_limit_per_minute"],
  primaryKey: ["installation_id"],
  indexes: ["application_id, clinic_id"],
  key: (event) => [event.data.installationId],
  on: {
    InstallationRequested: (_, { data }) => ({
      installation_id: data.installationId,
      application_id: data.applicationId,
      clinic_id: data.clinicId,
      status: "requested",
      scopes: data.scopes,
      branch_ids: null,
      rate_limit_per_minute: null,
    }),
    InstallationApproved: (_, { data }) => ({
      installation_id: data.installationId,
      application_id: data.applicationId,
      clinic_id: data.clinicId,
      status: "approved",
      scopes: data.scopes,
      branch_ids: data.branchIds,
      rate_limit_per_minute: data.rateLimitPerMinute,
    }),
    InstallationNarrowed: createUpdateHandler(({ data }) => ({
      scopes: data.scopes,
      branch_ids: data.branchIds,
    })),
    InstallationRateLimitAgreed: createUpdateHandler(({ data }) => ({
      rate_limit_per_minute: data.rateLimitPerMinute,
    })),
    InstallationRevoked: createUpdateHandler(() => ({ status: "revoked" })),
  },
});
