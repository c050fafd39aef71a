import { DomainError } from "../../shared/domain/domain-error.ts";
import {
  type AppointmentEvent,
  appointmentStreams,
  type HoldEvent,
  holdStreams,
} from "../../shared/domain/events/appointment.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import type { Reservation } from "../../shared/domain/events/scheduling.ts";
import {
  foldReservations,
  type HolderEvent,
  type ReservationUse,
} from "../../shared/domain/scheduling/reservation-use.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { EMPTY_STREAM, type EventLog, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import { concernsOneStream } from "../../shared/eventstore/stream-failure.ts";
import { type CommandContext, toNewEvent } from "../handling/handle.ts";

/** The appointment or hold that a reservation is for. */
export type Holder = Pick<Reservation, "holder" | "holderId">;

/** Time after which other commands may end a reservation that no appointment or hold uses. Milliseconds. */
export const RESERVATION_TIMEOUT_MS = 60_000;

/** Maximum number of attempts to decide whether a reservation has ended, while its holder keeps changing. */
const MAX_ATTEMPTS = 10;

const holderCategories = { appointment: appointmentStreams, hold: holdStreams };

export function toHolderStream({ holder, holderId }: Holder): string {
  return toStreamName(holderCategories[holder], holderId);
}

/** Returns the holder that a stream belongs to; undefined for streams that reserve nothing. */
export function findHolder(stream: string): Holder | undefined {
  const [holder, holderId] = [stream.slice(0, stream.indexOf("-")), stream.slice(stream.indexOf("-") + 1)];
  return holder === "appointment" || holder === "hold" ? { holder, holderId } : undefined;
}

interface HolderState {
  uses: ReadonlyMap<string, ReservationUse>;
  events: readonly RecordedEvent<AppointmentEvent | HoldEvent>[];
  /** Revision of the last event; `EMPTY_STREAM` if the stream does not exist or was deleted. */
  revision: bigint;
}

export async function readHolder(log: EventLog, holder: Holder): Promise<HolderState> {
  const events = await log.read<HolderEvent>(toHolderStream(holder));
  return { uses: foldReservations(events), events, revision: events.at(-1)?.revision ?? EMPTY_STREAM };
}

/**
 * Ends a reservation that no event of the holder uses.
 *
 * @param revision last revision of the holder, at which the reservation was not used
 * @throws {WrongExpectedRevisionError} if the holder has changed. The reservation may be in use
 */
export async function abandonReservation(
  log: EventLog,
  { holder, holderId }: Holder,
  reservationId: string,
  revision: bigint,
  context: CommandContext,
): Promise<void> {
  const event: CatalogEvent =
    holder === "appointment"
      ? { type: "ReservationAbandoned", data: { appointmentId: holderId, reservationId } }
      : { type: "HoldReservationAbandoned", data: { holdId: holderId, reservationId } };
  // With the causation id of the command, the event would look as if the command had changed the holder.
  const newEvent = toNewEvent(event, { ...context, causationId: reservationId });
  try {
    await log.append(toHolderStream({ holder, holderId }), revision, [newEvent]);
  } catch (error) {
    // Nothing can be appended to a deleted stream, so its reservations have ended.
    if (!isDeleted(error)) throw error;
  }
}

/**
 * Returns true if a reservation has ended, so that other commands may release its place. First tries to end an expired
 * hold, or a reservation that its holder has not used for a minute. The time only triggers this attempt: the
 * reservation ends when the event is appended to the holder's stream. If the holder cannot be read, returns false.
 */
export async function isReservationEnded(
  log: EventLog,
  reservation: Reservation,
  context: CommandContext,
): Promise<boolean> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    try {
      const { uses, events, revision } = await readHolder(log, reservation);
      const [firstEvent] = events;
      // Without its first events, the stream does not tell whether the reservation is in use.
      if (firstEvent && firstEvent.revision > 0n) return false;
      const use = uses.get(reservation.reservationId);
      if (use?.endedAt !== undefined) return true;
      if (use) {
        const now = toInstant(context.now);
        const isExpired = events.some(({ type, data }) => type === "HoldPlaced" && data.expiresAt <= now);
        if (!isExpired) return false;
        const release: CatalogEvent = { type: "HoldReleased", data: { holdId: reservation.holderId } };
        await log.append(toHolderStream(reservation), revision, [toNewEvent(release, context)]);
        return true;
      }
      if (context.now - Date.parse(reservation.reservedAt) < RESERVATION_TIMEOUT_MS) return false;
      await abandonReservation(log, reservation, reservation.reservationId, revision, context);
      return true;
    } catch (error) {
      if (error instanceof WrongExpectedRevisionError) continue;
      if (isDeleted(error)) return true;
      if (await concernsOneStream(log, error)) return false;
      throw error;
    }
  }
  return false;
}

function isDeleted(error: unknown): boolean {
  return error instanceof DomainError && error.code === "object_deleted";
}
