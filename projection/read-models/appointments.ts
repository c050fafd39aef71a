import { statusAfterEvent } from "../../shared/domain/appointment/appointment.ts";
import { appointmentCategory } from "../../shared/domain/events/appointment.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import {
  createUpdateHandler,
  defineReadModel,
  eraseColumns,
  getNeutralColumns,
  type RecordedEventOf,
  toColumns,
} from "../engine/read-model.ts";

type AppointmentEvent = RecordedEventOf<keyof typeof appointmentCategory.events>;

type RowWithRevision = { revision: number };

/** Returns the columns that every appointment event changes. */
function getCommonColumns(event: AppointmentEvent, row?: RowWithRevision) {
  return { revision: getNextRevision(event, row), updated_at: event.metadata.occurredAt };
}

/**
 * Returns the event's revision in the appointment's stream. Fixture events of a sandbox are not in that stream, so the
 * function counts them instead. The result does not depend on the reset, so all resets on one day produce the same
 * rows.
 */
function getNextRevision({ stream, revision, data }: AppointmentEvent, row?: RowWithRevision): number {
  if (stream === toStreamName(appointmentCategory, data.appointmentId)) return Number(revision);
  return row ? row.revision + 1 : 0;
}

/** Handles an event that changes only the common columns. */
function changeCommonColumns<R extends RowWithRevision>(row: R | undefined, event: AppointmentEvent): R | undefined {
  return row && { ...row, ...getCommonColumns(event, row) };
}

/** Handles an event that changes the status. */
function changeStatus<R extends RowWithRevision>(
  row: R | undefined,
  event: RecordedEventOf<keyof typeof statusAfterEvent>,
): R | undefined {
  return row && { ...row, status: statusAfterEvent[event.type], ...getCommonColumns(event, row) };
}

const personalColumns = { notes: getNeutralColumns("AppointmentRequested", ["reason", "notes"]) };

export const appointments = defineReadModel({
  table: "appointment",
  columns: {
    appointment_id: "uuid",
    clinic_id: "uuid",
    branch_id: "uuid",
    animal_id: "uuid",
    customer_id: "uuid",
    application_id: "uuid",
    scheduled_at: "timestamptz",
    duration_minutes: "integer",
    status: "text",
    reason: "text",
    notes: "text",
    revision: "integer",
    created_at: "timestamptz",
    updated_at: "timestamptz",
  },
  nullable: ["animal_id", "customer_id", "application_id", "reason", "notes"],
  primaryKey: ["appointment_id"],
  auditColumns: [
    "appointment_id",
    "clinic_id",
    "branch_id",
    "animal_id",
    "customer_id",
    "scheduled_at",
    "duration_minutes",
    "status",
  ],
  indexes: [
    "clinic_id, branch_id, scheduled_at, appointment_id",
    "clinic_id, scheduled_at, appointment_id",
    // Finds the appointments of an erased customer, and the last visit of a customer.
    { columns: "customer_id, scheduled_at", isUsedByEngine: true },
    // Finds appointments without a customer whose retention period has ended, in pages.
    { columns: "clinic_id, appointment_id", where: "customer_id IS NULL" },
  ],
  personalColumns,
  customerRowsSql: (schema) =>
    `SELECT appointment_id, customer_id FROM ${schema}.appointment WHERE customer_id = ANY ($1::uuid[])`,
  renderedColumns: {
    portal_json: (row) => ({
      id: row.appointment_id,
      scheduledAt: row.scheduled_at,
      durationMinutes: row.duration_minutes,
      reason: row.reason,
      status: row.status,
      notes: row.notes,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
    }),
  },
  sandboxCondition: () => "clinic_id = $1::uuid",
  key: (event) => [event.data.appointmentId],
  on: {
    AppointmentRequested: (_, event) => ({
      ...toColumns(event.data),
      status: "requested",
      created_at: event.metadata.occurredAt,
      ...getCommonColumns(event),
    }),
    AppointmentImported: (_, event) => ({
      ...toColumns(event.data),
      application_id: null,
      created_at: event.data.requestedAt ?? event.metadata.occurredAt,
      ...getCommonColumns(event),
    }),
    AppointmentConfirmed: changeStatus,
    AppointmentCheckedIn: changeStatus,
    AppointmentPutInWaiting: changeStatus,
    ConsultationStarted: changeStatus,
    AppointmentCompleted: changeStatus,
    AppointmentCancelled: changeStatus,
    AppointmentMarkedNoShow: changeStatus,
    AppointmentRescheduled: createUpdateHandler((event, row) => ({
      ...toColumns(event.data),
      ...getCommonColumns(event, row),
    })),
    ResourceAllocated: changeCommonColumns,
    ResourceReleased: changeCommonColumns,
    AppointmentDataErased: createUpdateHandler((event, row) => ({
      ...eraseColumns(row, event.data.categories, personalColumns),
      ...getCommonColumns(event, row),
    })),
  },
});
