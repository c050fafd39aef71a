import { z } from "zod";
import { notPersonal, personal } from "../personal-data/declaration.ts";
import { type DataOf, defineCategory, type EventOf, finiteTransitions, limitExcept } from "./category.ts";
import { erasureRecord } from "./erasure.ts";
import { boundedText, calendarDate, instant, integer, label, notes, uuid } from "./fields.ts";

const appointmentId = uuid;

export const MAX_APPOINTMENT_MINUTES = 1_440;

/**
 * Maximum duration of a new allocation or hold, in minutes: 60 days. A longer appointment can extend an allocation by
 * less than a day. Thus, an allocation touches up to 62 days in UTC.
 */
export const MAX_ALLOCATION_MINUTES = 86_400;

const durationMinutes = integer(1, MAX_APPOINTMENT_MINUTES);

/** Schema of the start of an appointment. The end must also have a four-digit year, as RFC 3339 requires. */
export const scheduledAt = notPersonal(
  instant.refine((time) => time < "9999-12-31", "must be before 9999-12-31"),
  "time of an appointment",
);

const appointmentDetails = {
  appointmentId,
  clinicId: uuid,
  branchId: uuid,
  animalId: uuid.nullable(),
  customerId: uuid.nullable(),
  scheduledAt: scheduledAt.describe("start time"),
  durationMinutes: durationMinutes.describe("duration in minutes"),
  reason: personal("notes", label.nullable(), null),
  notes: personal("notes", notes.nullable(), null),
};

/**
 * SHA-256 (hex) of the texts of a request or import. Null for a request at the front desk, and after an erasure. A
 * retry after an erasure is recognized without its texts.
 */
const textHash = personal("notes", z.string().nullable(), null, { isDerived: true });

/**
 * Limit for the length of an appointment's stream. At the limit, only moves and allocations are refused. Without them,
 * few other changes are possible.
 */
const appointmentBound = {
  ...limitExcept(
    ...(["AppointmentConfirmed", "AppointmentCheckedIn", "AppointmentPutInWaiting", "ConsultationStarted"] as const),
    ...(["AppointmentCompleted", "AppointmentCancelled", "AppointmentMarkedNoShow"] as const),
    ...(["ResourceReleased", "AppointmentDataErased", "ReservationAbandoned"] as const),
  ),
  maxChanges: { production: 5_000, sandbox: 500 },
};

/**
 * Id of the reservation for the place that an allocation or hold takes; see `resourceDayStreams`. Absent if the event
 * takes no place, or if its time span had already ended.
 */
const reservationId = uuid.optional();

/**
 * True if an import, move, cancellation or no-show caused this allocation or release. Partners receive no separate
 * event about it.
 */
const isConsequence = z.boolean().optional();

/** Events of an appointment and its allocated resources. Stream id: id of the appointment. */
export const appointmentStreams = defineCategory("appointment", "appointmentId", appointmentBound, {
  AppointmentRequested: z.object({
    ...appointmentDetails,
    /** Id of the partner application that requested the appointment; null if the clinic's front desk requested it. */
    applicationId: uuid.nullable(),
    /**
     * SHA-256 (hex) of the request without its texts; null for a request at the front desk. Distinguishes a retry from
     * a different request with the same idempotency key.
     */
    requestHash: notPersonal(z.string().nullable(), "hash of ids and times"),
    textHash,
    /**
     * Sandbox generation in which the application requested the appointment; 0 outside of sandboxes and in fixtures.
     */
    sandboxGeneration: z.int().min(0),
    /** Resource allocated for the duration of the appointment. Absent if the clinic allocates resources later. */
    place: z.object({ assignmentId: uuid, resourceId: uuid, reservationId }).optional(),
    /** True if the appointment is confirmed at once, because the clinic confirms bookings automatically. */
    isConfirmed: z.boolean().optional(),
  }),
  /**
   * An appointment and its current status were imported from another system. The event's time is the time at which the
   * appointment reached that status. Earlier events of the appointment are not recorded.
   */
  AppointmentImported: z.object({
    ...appointmentDetails,
    status: z.enum(["requested", "confirmed", "completed", "cancelled", "no_show"]),
    /** Time at which the appointment was requested; null if unknown. */
    requestedAt: instant.nullable().describe("time at which the appointment was requested"),
    /**
     * Time at which the appointment reached its status; null if unknown. If null, the event's time is estimated from
     * the other times.
     */
    statusAt: instant
      .nullable()
      .describe("time at which the appointment reached its status; default: estimated from the start time"),
    /**
     * SHA-256 (hex) of the imported data without its texts. Distinguishes a repeated import from a different
     * appointment with the same id.
     */
    requestHash: notPersonal(z.string(), "hash of ids and times"),
    textHash,
  }),
  AppointmentConfirmed: z.object({ appointmentId }),
  AppointmentCheckedIn: z.object({ appointmentId }),
  AppointmentPutInWaiting: z.object({ appointmentId }),
  ConsultationStarted: z.object({ appointmentId }),
  AppointmentCompleted: z.object({ appointmentId }),
  AppointmentCancelled: z.object({ appointmentId, reason: personal("notes", label.nullable(), null) }),
  AppointmentMarkedNoShow: z.object({ appointmentId }),
  AppointmentRescheduled: z.object({
    appointmentId,
    scheduledAt: scheduledAt.describe("new start time"),
    durationMinutes,
    reason: personal("notes", label.nullable(), null),
  }),
  /** Allocates a resource. If the event has the id of an existing assignment, it moves this assignment. */
  ResourceAllocated: z.object({
    appointmentId,
    assignmentId: uuid,
    resourceId: uuid,
    allocationStart: instant.describe("start of the allocation"),
    allocationEnd: instant.describe("end of the allocation"),
    reservationId,
    isConsequence,
  }),
  ResourceReleased: z.object({ appointmentId, assignmentId: uuid, isConsequence }),
  /**
   * Ends a reservation that no event of the appointment has used. The event advances the stream's revision, so a
   * delayed append that uses the reservation is refused. The appointment itself may not exist yet.
   */
  ReservationAbandoned: z.object({ appointmentId, reservationId: uuid }),
  /** Erases the data of an appointment without a customer. */
  AppointmentDataErased: z.object({ appointmentId, ...erasureRecord }),
});
export type AppointmentEvent = EventOf<typeof appointmentStreams>;

/** Default details of an appointment if only its branch and start are known. */
export const detailDefaults = {
  animalId: null,
  customerId: null,
  durationMinutes: 30,
  reason: null,
  notes: null,
} satisfies Partial<DataOf<AppointmentEvent, "AppointmentImported">>;

/** Default data of a request at the front desk. */
export const requestDefaults = {
  ...detailDefaults,
  applicationId: null,
  requestHash: null,
  textHash: null,
  sandboxGeneration: 0,
} satisfies Partial<DataOf<AppointmentEvent, "AppointmentRequested">>;

/**
 * Limit for the length of a hold's stream. Each failed attempt to place a hold can add a `HoldReservationAbandoned`
 * event. At the limit, the hold can no longer be placed.
 */
const holdBound = limitExcept("HoldReleased", "HoldReservationAbandoned");

/** Events of a hold: a time span reserved before an appointment exists. Stream id: id of the hold. */
export const holdStreams = defineCategory("hold", "holdId", holdBound, {
  HoldPlaced: z.object({
    holdId: uuid,
    clinicId: uuid,
    branchId: uuid,
    resourceId: uuid.nullable().describe("id of the resource; default: any resource of the branch"),
    startsAt: instant.describe("start of the hold"),
    endsAt: instant.describe("end of the hold"),
    expiresAt: instant.describe("time at which the hold expires"),
    reservationId,
  }),
  HoldReleased: z.object({ holdId: uuid }),
  /** Ends a reservation that the hold has not used; see `ReservationAbandoned`. */
  HoldReservationAbandoned: z.object({ holdId: uuid, reservationId: uuid }),
});
export type HoldEvent = EventOf<typeof holdStreams>;

/** Events of a ticket in the front-desk queue. Stream id: id of the ticket. */
export const queueTicketStreams = defineCategory("queueTicket", "ticketId", finiteTransitions, {
  QueueTicketIssued: z.object({
    ticketId: uuid,
    clinicId: uuid,
    branchId: uuid,
    appointmentId: uuid.nullable(),
    visitId: uuid.nullable(),
    animalId: uuid.nullable(),
    /** Owner of the animal, or customer of the appointment; null if the ticket has no customer. */
    customerId: uuid.nullable(),
    ticketNumber: notPersonal(boundedText(20), "number that the front desk calls").describe(
      "number that the front desk calls",
    ),
    queueDate: calendarDate.describe("date of the queue, in the clinic's time zone"),
    arrivalType: notPersonal(boundedText(40), "code of the front desk").describe("type of arrival, such as walk_in"),
    priority: notPersonal(boundedText(40), "code of the front desk").describe("priority, such as urgent"),
    estimatedWaitMinutes: integer(0, 100_000).nullable().describe("estimated wait in minutes"),
    notes: personal("notes", notes.nullable(), null),
  }),
  QueueTicketCalled: z.object({ ticketId: uuid }),
  QueueTicketCompleted: z.object({ ticketId: uuid }),
  QueueTicketCancelled: z.object({ ticketId: uuid }),
  QueueTicketMarkedNoShow: z.object({ ticketId: uuid }),
  /** Erases the data of a ticket without a customer. */
  QueueTicketDataErased: z.object({ ticketId: uuid, ...erasureRecord }),
});
export type QueueTicketEvent = EventOf<typeof queueTicketStreams>;
