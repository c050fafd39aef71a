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
