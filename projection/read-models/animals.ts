import { animalConsentStreams } from "../../shared/domain/events/consent.ts";
import { buildNameSortSql } from "../../shared/postgres/read-model-schema.ts";
import { createUpdateHandler, defineReadModel, getNeutralColumns, toColumns } from "../engine/read-model.ts";

export const animals = defineReadModel({
  table: "animal",
  columns: {
    animal_id: "uuid",
    clinic_id: "uuid",
    customer_id: "uuid",
    name: "text",
    species: "text",
    breed: "text",
    sex: "text",
    birth_date: "date",
    weight_kg: "numeric",
    microchip: "text",
    created_at: "timestamptz",
    updated_at: "timestamptz",
  },
  nullable: ["breed", "sex", "birth_date", "weight_kg", "microchip"],
  primaryKey: ["animal_id"],
  auditColumns: ["animal_id", "clinic_id", "customer_id", "name", "species"],
  indexes: [{ columns: `customer_id, ${buildNameSortSql("name")}, animal_id`, isUsedByEngine: true }],
  personalColumns: {
    animal: getNeutralColumns("AnimalRegistered", ["name", "species", "breed", "sex", "microchip"]),
  },
  customerRowsSql: (schema) =>
    `SELECT animal_id, customer_id FROM ${schema}.animal WHERE customer_id = ANY ($1::uuid[])`,
  renderedColumns: {
    portal_json: (row) => ({
      id: row.animal_id,
      name: row.name,
      species: row.species,
      breed: row.breed,
      sex: row.sex,
      birthDate: row.birth_date,
      weightKg: row.weight_kg,
      microchip: row.microchip,
      updatedAt: row.updated_at,
    }),
    appointment_json: (row) => ({
      id: row.animal_id,
      name: row.name,
      species: row.species,
      breed: row.breed,
    }),
  },
  sandboxCondition: (schema) =>
    `customer_id IN (SELECT customer_id FROM ${schema}.customer WHERE clinic_id = $1::uuid)`,
  key: (event) => [event.data.animalId],
  on: {
    AnimalRegistered: (_, { data, metadata }) => ({
      ...toColumns(data),
      created_at: metadata.occurredAt,
      updated_at: metadata.occurredAt,
    }),
    AnimalDetailsChanged: createUpdateHandler(({ data, metadata }) => ({
      ...toColumns(data),
      updated_at: metadata.occurredAt,
    })),
    AnimalWeighed: createUpdateHandler(({ data, metadata }) => ({
      ...toColumns(data),
      updated_at: metadata.occurredAt,
    })),
  },
});

/**
 * Links of applications to animals. An erasure of the owner ends a link at once, before an event withdraws it. Queries
 * must therefore check `IS_LINK_VALID_SQL`.
 */
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
  commandColumns: ["application_id", "animal_id", "customer_id"],
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
