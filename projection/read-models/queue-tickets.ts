import {
  createUpdateHandler,
  defineReadModel,
  eraseColumns,
  getNeutralColumns,
  pickColumns,
  toColumns,
} from "../engine/read-model.ts";

const personalColumns = { notes: getNeutralColumns("QueueTicketIssued", ["notes"]) };

export const queueTickets = defineReadModel({
  table: "queue_ticket",
  columns: {
    ticket_id: "uuid",
    clinic_id: "uuid",
    branch_id: "uuid",
    appointment_id: "uuid",
    visit_id: "uuid",
    animal_id: "uuid",
    /** Owner of the animal, or customer of the appointment. */
    customer_id: "uuid",
    ticket_number: "text",
    queue_date: "date",
    arrival_type: "text",
    priority: "text",
    status: "text",
    estimated_wait_minutes: "numeric",
    checked_in_at: "timestamptz",
    called_at: "timestamptz",
    completed_at: "timestamptz",
    notes: "text",
    updated_at: "timestamptz",
  },
  nullable: [
    "appointment_id",
    "visit_id",
    "animal_id",
    "customer_id",
    "estimated_wait_minutes",
    "called_at",
    "completed_at",
    "notes",
  ],
  primaryKey: ["ticket_id"],
  auditColumns: ["ticket_id", "clinic_id", "ticket_number"],
  indexes: [
    { columns: "clinic_id, branch_id", where: "status NOT IN ('completed', 'cancelled', 'no_show')" },
    { columns: "appointment_id", isUsedByEngine: true },
    { columns: "animal_id", isUsedByEngine: true },
    // Finds tickets without a customer whose retention period has ended, in pages.
    { columns: "clinic_id, ticket_id", where: "animal_id IS NULL" },
  ],
  personalColumns,
  customerRowsSql: (schema) => `
    SELECT ticket_id, animal.customer_id FROM ${schema}.animal JOIN ${schema}.queue_ticket USING (animal_id)
     WHERE animal.customer_id = ANY ($1::uuid[])
    UNION
    SELECT ticket_id, a.customer_id FROM ${schema}.appointment a JOIN ${schema}.queue_ticket USING (appointment_id)
     WHERE a.customer_id = ANY ($1::uuid[])`,
  renderedColumns: {
    portal_json: (row) => ({
      id: row.ticket_id,
      ...pickColumns(row, "appointment_id", "visit_id", "animal_id", "ticket_number", "queue_date", "arrival_type"),
      ...pickColumns(row, "priority", "status", "estimated_wait_minutes", "checked_in_at", "called_at"),
      ...pickColumns(row, "completed_at", "notes", "updated_at"),
    }),
  },
  key: (event) => [event.data.ticketId],
  on: {
    QueueTicketIssued: (_, { data, metadata }) => ({
      ...toColumns(data),
      status: "waiting",
      checked_in_at: metadata.occurredAt,
      called_at: null,
      completed_at: null,
      updated_at: metadata.occurredAt,
    }),
    QueueTicketCalled: createUpdateHandler(({ metadata }) => ({
      status: "called",
      called_at: metadata.occurredAt,
      updated_at: metadata.occurredAt,
    })),
    QueueTicketCompleted: createUpdateHandler(({ metadata }) => ({
      status: "completed",
      completed_at: metadata.occurredAt,
      updated_at: metadata.occurredAt,
    })),
    QueueTicketCancelled: createUpdateHandler(({ metadata }) => ({
      status: "cancelled",
      updated_at: metadata.occurredAt,
    })),
    QueueTicketMarkedNoShow: createUpdateHandler(({ metadata }) => ({
      status: "no_show",
      updated_at: metadata.occurredAt,
    })),
    QueueTicketDataErased: createUpdateHandler(({ data, metadata }, row) => ({
      ...eraseColumns(row, data.categories, personalColumns),
      updated_at: metadata.occurredAt,
    })),
  },
});
