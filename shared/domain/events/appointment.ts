import { z } from "zod";
import { defineCategory, type EventOf } from "./category.ts";
import { calendarDate, instant, label, notes, uuid, word } from "./fields.ts";

const appointmentId = uuid;

/** An appointment and the resources allocated to it. Stream id: the appointment's. */
export const appointmentCategory = defineCategory("appointment", {
  AppointmentRequested: z.object({
    appointmentId,
    clinicId: uuid,
    branchId: uuid,
    animalId: uuid.nullable(),
    customerId: uuid.nullable(),
    scheduledAt: instant,
    durationMinutes: z.int().min(1).max(1440),
    reason: label.nullable(),
    notes: notes.nullable(),
    /** The partner application that created it, null for the clinic's own front desk. */
    applicationId: uuid.nullable(),
    /** SHA-256 (hex) of the request that created it: tells a retry from a reuse of its idempotency key. */
    requestHash: z.string().nullable(),
    /** The generation of the sandbox that the application created it in; 0 outside of sandboxes, and in their fixtures. */
    sandboxGeneration: z.int().min(0),
  }),
  /**
   * An appointment taken over from another system with the status that it had there. The event occurred when the
   * appointment came to that status; what happened to it before is not recorded here.
   */
  AppointmentImported: z.object({
    appointmentId,
    clinicId: uuid,
    branchId: uuid,
    animalId: uuid.nullable(),
    customerId: uuid.nullable(),
    scheduledAt: instant,
    durationMinutes: z.int().min(1).max(1440),
    reason: label.nullable(),
    notes: notes.nullable(),
    status: z.enum(["requested", "confirmed", "completed", "cancelled", "no_show"]),
    /** When it was requested; null if the other system did not say. */
    requestedAt: instant.nullable(),
    /** When it came to its status; null if the other system did not say, and the event's time is derived. */
    statusAt: instant.nullable(),
    /** SHA-256 (hex) of what was imported: tells a repetition from another appointment with the same id. */
    requestHash: z.string(),
  }),
  AppointmentConfirmed: z.object({ appointmentId }),
  AppointmentCheckedIn: z.object({ appointmentId }),
  AppointmentPutInWaiting: z.object({ appointmentId }),
  ConsultationStarted: z.object({ appointmentId }),
  AppointmentCompleted: z.object({ appointmentId }),
  AppointmentCancelled: z.object({ appointmentId, reason: label.nullable() }),
  AppointmentMarkedNoShow: z.object({ appointmentId }),
  AppointmentRescheduled: z.object({
    appointmentId,
    scheduledAt: instant,
    durationMinutes: z.int().min(1).max(1440),
  }),
  ResourceAllocated: z.object({
    appointmentId,
    assignmentId: uuid,
    resourceId: uuid,
    allocationStart: instant,
    allocationEnd: instant,
  }),
  ResourceReleased: z.object({ appointmentId, assignmentId: uuid }),
});
export type AppointmentEvent = EventOf<typeof appointmentCategory>;

/** A time kept free on a resource before an appointment exists. Stream id: the hold's. */
export const holdCategory = defineCategory("hold", {
  HoldPlaced: z.object({
    holdId: uuid,
    clinicId: uuid,
    branchId: uuid,
    resourceId: uuid.nullable(),
    startsAt: instant,
    endsAt: instant,
    expiresAt: instant,
  }),
  HoldReleased: z.object({ holdId: uuid }),
});
export type HoldEvent = EventOf<typeof holdCategory>;

/** A place in the front desk's queue. Stream id: the ticket's. */
export const queueTicketCategory = defineCategory("queueTicket", {
  QueueTicketIssued: z.object({
    ticketId: uuid,
    clinicId: uuid,
    branchId: uuid,
    appointmentId: uuid.nullable(),
    visitId: uuid.nullable(),
    animalId: uuid.nullable(),
    ticketNumber: word(20),
    queueDate: calendarDate,
    arrivalType: word(40),
    priority: word(40),
    estimatedWaitMinutes: z.int().min(0).max(100_000).nullable(),
    notes: notes.nullable(),
  }),
  QueueTicketCalled: z.object({ ticketId: uuid }),
  QueueTicketCompleted: z.object({ ticketId: uuid }),
  QueueTicketCancelled: z.object({ ticketId: uuid }),
  QueueTicketMarkedNoShow: z.object({ ticketId: uuid }),
});
export type QueueTicketEvent = EventOf<typeof queueTicketCategory>;
