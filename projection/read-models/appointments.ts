import { type AppointmentStatus, statusAfterEvent } from "../../shared/domain/appointment/appointment.ts";
import { appointmentCategory } from "../../shared/domain/events/appointment.ts";
import { streamName } from "../../shared/domain/events/category.ts";
import { change, defineReadModel, type RecordedEventOf } from "../engine/read-model.ts";

type AppointmentRow = {
  appointment_id: string;
  clinic_id: string;
  branch_id: string;
  animal_id: string | null;
  customer_id: string | null;
  application_id: string | null;
  scheduled_at: string;
  duration_minutes: number;
  status: AppointmentStatus;
  reason: string | null;
  notes: string | null;
  revision: number;
  created_at: string;
  updated_at: string;
};

type AppointmentEvent = RecordedEventOf<keyof typeof appointmentCategory.events>;

/** Columns that every appointment event changes. */
function latest(event: AppointmentEvent, row: AppointmentRow | undefined) {
  return { revision: revisionAfter(event, row), updated_at: event.metadata.occurredAt };
}

/**
 * Returns the event's revision in the stream of the appointment. Facts of a sandbox fixture have no such stream. They are
 * counted instead, so that every reset on one day gives the same rows.
 */
function revisionAfter(
  { stream, revision, data }: AppointmentEvent,
  row: AppointmentRow | undefined,
): number {
  if (stream === streamName(appointmentCategory, data.appointmentId)) return Number(revision);
  return row ? row.revision + 1 : 0;
}

const moved = change<AppointmentRow, RecordedEventOf<keyof typeof statusAfterEvent>>((event, row) => ({
  status: statusAfterEvent[event.type],
  ...latest(event, row),
}));

const touched = change<AppointmentRow, RecordedEventOf<"ResourceAllocated" | "ResourceReleased">>(latest);

export const appointments = defineReadModel<AppointmentRow>()({
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
  indexes: ["clinic_id, branch_id, scheduled_at, appointment_id", "clinic_id, scheduled_at, appointment_id"],
  inSandbox: () => "clinic_id = $1::uuid",
  key: (event) => [event.data.appointmentId],
  on: {
    AppointmentRequested: (_, event) => ({
      appointment_id: event.data.appointmentId,
      clinic_id: event.data.clinicId,
      branch_id: event.data.branchId,
      animal_id: event.data.animalId,
      customer_id: event.data.customerId,
      application_id: event.data.applicationId,
      scheduled_at: event.data.scheduledAt,
      duration_minutes: event.data.durationMinutes,
      status: "requested",
      reason: event.data.reason,
      notes: event.data.notes,
      created_at: event.metadata.occurredAt,
      ...latest(event, undefined),
    }),
    AppointmentImported: (_, event) => ({
      appointment_id: event.data.appointmentId,
      clinic_id: event.data.clinicId,
      branch_id: event.data.branchId,
      animal_id: event.data.animalId,
      customer_id: event.data.customerId,
      application_id: null,
      scheduled_at: event.data.scheduledAt,
      duration_minutes: event.data.durationMinutes,
      status: event.data.status,
      reason: event.data.reason,
      notes: event.data.notes,
      created_at: event.data.requestedAt ?? event.metadata.occurredAt,
      ...latest(event, undefined),
    }),
    AppointmentConfirmed: moved,
    AppointmentCheckedIn: moved,
    AppointmentPutInWaiting: moved,
    ConsultationStarted: moved,
    AppointmentCompleted: moved,
    AppointmentCancelled: moved,
    AppointmentMarkedNoShow: moved,
    AppointmentRescheduled: change((event, row) => ({
      scheduled_at: event.data.scheduledAt,
      duration_minutes: event.data.durationMinutes,
      ...latest(event, row),
    })),
    ResourceAllocated: touched,
    ResourceReleased: touched,
  },
});
