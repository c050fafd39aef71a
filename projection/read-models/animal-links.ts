import { animalConsentStreams } from "../../shared/domain/events/consent.ts";
import { defineReadModel, toColumns } from "../engine/read-model.ts";

/** Links of applications to animals. An erasure of the owner ends a link before it is withdrawn, see `erasure`. */
export const animalLinks = defineReadModel({
  table: "animal_link",
  columns: {
    application_id: "uuid",
    animal_id: "uuid",
    link_id: "uuid",
    clinic_id: "uuid",
    customer_id: "uuid",
    covers: "text",
    linked_at: "timestamptz",
    /** Log position of the link. */
    position: "bigint",
  },
  nullable: [],
  primaryKey: ["application_id", "animal_id"],
  revokingStreams: animalConsentStreams,
  revokingColumn: "animal_id",
  indexes: ["application_id, clinic_id, linked_at, link_id", "application_id, clinic_id, position"],
  sandboxCondition: () => "clinic_id = $1::uuid",
  key: (event) => [event.data.applicationId, event.data.animalId],
  on: {
    AnimalLinked: (_, { data, metadata, position }) => ({
      ...toColumns(data),
      linked_at: metadata.occurredAt,
      position: String(position),
    }),
    AnimalLinkWithdrawn: (row, { data }) => (row?.link_id === data.linkId ? undefined : row),
  },
});
