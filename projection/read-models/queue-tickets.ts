import { change, defineReadModel } from "../engine/read-model.ts";

type QueueTicketRow = {
  ticket_id: string;
  clinic_id: string;
  branch_id: string;
  appointment_id: string | null;
  visit_id: string | null;
  animal_id: string | null;
  ticket_number: string;
  queue_date: string;
  arrival_type: string;
  priority: string;
  status: string;
  estimated_wait_minutes: number | null;
  checked_in_at: string;
  called_at: string | null;
  completed_at: string | null;
  notes: string | null;
  updated_at: string;
};

export const queueTickets = defineReadModel<QueueTicketRow>()({
  table: "queue_ticket",
  columns: {
    ticket_id: "uuid",
    clinic_id: "uuid",
    branch_id: "uuid",
    appointment_id: "uuid",
    visit_id: "uuid",
    animal_id: "uuid",
    ticket_number: "text",
    queue_date: "date",
    arrival_type: "text",
    priority: "text",
    status: "text",
    estimated_wait_minutes: "integer",
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
    "estimated_wait_minutes",
    "called_at",
    "completed_at",
    "notes",
  ],
  primaryKey: ["ticket_id"],
  indexes: ["clinic_id, branch_id, status", "appointment_id"],
  key: (event) => [event.data.ticketId],
  on: {
    QueueTicketIssued: (_, { data, metadata }) => ({
      ticket_id: data.ticketId,
      clinic_id: data.clinicId,
      branch_id: data.branchId,
      appointment_id: data.appointmentId,
      visit_id: data.visitId,
      animal_id: data.animalId,
      ticket_number: data.ticketNumber,
      queue_date: data.queueDate,
      arrival_type: data.arrivalType,
      priority: data.priority,
      status: "waiting",
      estimated_wait_minutes: data.estimatedWaitMinutes,
      checked_in_at: metadata.occurredAt,
      called_at: null,
      completed_at: null,
      notes: data.notes,
      updated_at: metadata.occurredAt,
    }),
    QueueTicketCalled: change(({ metadata }) => ({
      status: "called",
      called_at: metadata.occurredAt,
      updated_at: metadata.occurredAt,
    })),
    QueueTicketCompleted: change(({ metadata }) => ({
      status: "completed",
      completed_at: metadata.occurredAt,
      updated_at: metadata.occurredAt,
    })),
    QueueTicketCancelled: change(({ metadata }) => ({
      status: "cancelled",
      updated_at: metadata.occurredAt,
    })),
    QueueTicketMarkedNoShow: change(({ metadata }) => ({
      status: "no_show",
      updated_at: metadata.occurredAt,
    })),
  },
});
