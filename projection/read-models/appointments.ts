import { type AppointmentStatus, statusAfter } from "../../shared/appointment/appointment.ts";
import { change, defineReadModel, type RecordedOf } from "../engine/read-model.ts";

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
  created_at: string;
  updated_at: string;
};

const moved = change<AppointmentRow, RecordedOf<keyof typeof statusAfter>>(({ type, metadata }) => ({
  status: statusAfter[type],
  updated_at: metadata.occurredAt,
}));

const touched = change<AppointmentRow, RecordedOf<"ResourceAllocated" | "ResourceReleased">>(
  ({ metadata }) => ({ updated_at: metadata.occurredAt }),
);

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
    created_at: "timestamptz",
    updated_at: "timestamptz",
  },
  nullable: ["animal_id", "customer_id", "application_id", "reason", "notes"],
  primaryKey: ["appointment_id"],
  indexes: ["clinic_id, branch_id, scheduled_at, appointment_id", "clinic_id, scheduled_at, appointment_id"],
  inSandbox: () => "clinic_id = $1::uuid",
  key: (event) => [event.data.appointmentId],
  on: {
    AppointmentRequested: (_, { data, metadata }) => ({
      appointment_id: data.appointmentId,
      clinic_id: data.clinicId,
      branch_id: data.branchId,
      animal_id: data.animalId,
      customer_id: data.customerId,
      application_id: data.applicationId,
      scheduled_at: data.scheduledAt,
      duration_minutes: data.durationMinutes,
      status: "requested",
      reason: data.reason,
      notes: data.notes,
      created_at: metadata.occurredAt,
      updated_at: metadata.occurredAt,
    }),
    AppointmentImported: (_, { data, metadata }) => ({
      appointment_id: data.appointmentId,
      clinic_id: data.clinicId,
      branch_id: data.branchId,
      animal_id: data.animalId,
      customer_id: data.customerId,
      application_id: null,
      scheduled_at: data.scheduledAt,
      duration_minutes: data.durationMinutes,
      status: data.status,
      reason: data.reason,
      notes: data.notes,
      created_at: data.requestedAt ?? metadata.occurredAt,
      updated_at: metadata.occurredAt,
    }),
    AppointmentConfirmed: moved,
    AppointmentCheckedIn: moved,
    AppointmentPutInWaiting: moved,
    ConsultationStarted: moved,
    AppointmentCompleted: moved,
    AppointmentCancelled: moved,
    AppointmentMarkedNoShow: moved,
    AppointmentRescheduled: change(({ data, metadata }) => ({
      scheduled_at: data.scheduledAt,
      duration_minutes: data.durationMinutes,
      updated_at: metadata.occurredAt,
    })),
    ResourceAllocated: touched,
    ResourceReleased: touched,
  },
});
