import { partnerApplicationStreams } from "../../shared/domain/events/partner.ts";
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
