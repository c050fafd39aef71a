import { defineReadModel, toColumns } from "../engine/read-model.ts";

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
  },
  nullable: [],
  primaryKey: ["application_id"],
  indexes: ["clinic_id"],
  key: (event) => [event.data.applicationId],
  on: {
    SandboxReset: (_, { data, metadata }) => ({ ...toColumns(data), reset_at: metadata.occurredAt }),
  },
});
