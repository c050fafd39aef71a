import { change, defineReadModel } from "../engine/read-model.ts";

type ApplicationRow = {
  application_id: string;
  environment: string;
  name: string;
  scopes: string[];
  revoked: boolean;
  /** Ids of the credentials that are live; their hashes stay in the log. */
  credential_ids: string[];
};

export const applications = defineReadModel<ApplicationRow>()({
  table: "partner_application",
  columns: {
    application_id: "uuid",
    environment: "text",
    name: "text",
    scopes: "jsonb",
    revoked: "boolean",
    credential_ids: "jsonb",
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
    }),
    CredentialIssued: change(({ data }, row) => ({
      credential_ids: [...row.credential_ids, data.credentialId],
    })),
    CredentialRevoked: change(({ data }, row) => ({
      credential_ids: row.credential_ids.filter((id) => id !== data.credentialId),
    })),
    ApplicationRevoked: change(() => ({ revoked: true })),
  },
});
