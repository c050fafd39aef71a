import { change, defineReadModel, json } from "../engine/read-model.ts";

export const applications = defineReadModel({
  table: "partner_application",
  columns: {
    application_id: "uuid",
    environment: "text",
    name: "text",
    scopes: json<string[]>(),
    revoked: "boolean",
    /** Ids of the active credentials. The hashes of their secrets are only in the log. */
    credential_ids: json<string[]>(),
    /** Origins that the operator approved as webhook destinations in production. */
    webhook_origins: json<string[]>(),
  },
  nullable: [],
  primaryKey: ["application_id"],
  indexes: [],
  key: (event) => [event.data.applicationId],
  on: {
    ApplicationRegistered: (_, { data }) => ({
      application_id: data.applicationId,
      environment: data.environment,
      name: data.name,
      scopes: data.scopes,
      revoked: false,
      credential_ids: [],
      webhook_origins: [],
    }),
    CredentialIssued: change(({ data }, row) => ({
      credential_ids: [...row.credential_ids, data.credentialId],
    })),
    CredentialRevoked: change(({ data }, row) => ({
      credential_ids: row.credential_ids.filter((id) => id !== data.credentialId),
    })),
    WebhookOriginApproved: change(({ data }, row) => ({
      webhook_origins: [...new Set([...row.webhook_origins, data.origin])],
    })),
    WebhookOriginWithdrawn: change(({ data }, row) => ({
      webhook_origins: row.webhook_origins.filter((origin) => origin !== data.origin),
    })),
    ApplicationRevoked: change(() => ({ revoked: true })),
  },
});
