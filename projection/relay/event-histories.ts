import { LRUCache } from "lru-cache";
import { type Appointment, appointmentAggregate } from "../../shared/domain/appointment/appointment.ts";
import type { AppointmentEvent } from "../../shared/domain/events/appointment.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { concernsOneStream } from "../../shared/eventstore/stream-failure.ts";
import { describeLogPosition } from "../../shared/eventstore/subscription.ts";
import { getPublicType } from "../../shared/partner-api/public-event.ts";

export function isSentAppointmentEvent({ type }: RecordedEvent<AppointmentEvent>): boolean {
  return getPublicType(type) !== null;
}

/** Thrown if an event has no message, and a retry cannot succeed until its stream changes. */
export class RelayError extends Error {
  override readonly name = "RelayError";
}

interface SentEvent {
  id: string;
  position: bigint;
}

/** State of an appointment after some of its events. */
interface AppointmentState {
  appointment: Appointment | undefined;
  lastSentEvent: SentEvent | undefined;
}

/** Maximum number of appointments whose state is kept. */
const MAX_APPOINTMENTS = 1_000;

/**
 * Reads what happened before events, for their messages. Keeps the state of recent appointments: if each of many events
 * of one appointment read its stream, the reads would take so long that no event would get a message.
 */
export class EventHistories {
  readonly #log: EventLog;
  readonly #appointments = new LRUCache<string, { revision: bigint; statePromise: Promise<AppointmentState> }>({
    max: MAX_APPOINTMENTS,
  });

  constructor(log: EventLog) {
    this.#log = log;
  }

  /**
   * Returns the state of an appointment before an event.
   *
   * @throws {RelayError} if the stream cannot be read, or does not end with the event
   * @throws {LogUnavailableError}
   */
  readStateBefore(event: RecordedEvent<AppointmentEvent>): Promise<AppointmentState> {
    const stateBefore = this.#findStateBefore(event) ?? this.#readState(event);
    this.#advance(stateBefore, event);
    return stateBefore;
  }

  /** Notes an event without a message, so that the next event of its appointment needs no read. */
  passAppointmentEvent(event: RecordedEvent<AppointmentEvent>): undefined {
    const stateBefore = this.#findStateBefore(event);
    if (stateBefore) this.#advance(stateBefore, event);
  }

  #findStateBefore({ stream, revision }: RecordedEvent): Promise<AppointmentState> | undefined {
    if (revision === 0n) return Promise.resolve({ appointment: undefined, lastSentEvent: undefined });
    const latest = this.#appointments.get(stream);
    return latest?.revision === revision - 1n ? latest.statePromise : undefined;
  }

  async #readState(event: RecordedEvent): Promise<AppointmentState> {
    const events = await this.readUpTo<AppointmentEvent>(event);
    const emptyState: AppointmentState = { appointment: undefined, lastSentEvent: undefined };
    return events.slice(0, -1).reduce(evolveState, emptyState);
  }

  #advance(stateBefore: Promise<AppointmentState>, event: RecordedEvent<AppointmentEvent>): void {
    const { stream, revision } = event;
    const statePromise = stateBefore.then((state) => evolveState(state, event));
    // The next event of the appointment may need the state, and then handles the error.
    statePromise.catch(() => undefined);
    this.#appointments.set(stream, { revision, statePromise });
  }

  /**
   * Returns the events that the state of an event's stream depends on, up to the event.
   *
   * @throws {RelayError} if the stream cannot be read, or does not end with the event
   * @throws {LogUnavailableError}
   */
  async readUpTo<Event extends CatalogEvent>(event: RecordedEvent): Promise<RecordedEvent<Event>[]> {
    const positionText = describeLogPosition(event);
    let history: RecordedEvent<Event>[];
    try {
      history = await this.#log.read<Event>(event.stream, event.revision);
    } catch (error) {
      if (!(await concernsOneStream(this.#log, error))) throw error;
      throw new RelayError(`${positionText}: ${(error as Error).message}`, { cause: error });
    }
    if (history.at(-1)?.id !== event.id)
      throw new RelayError(`${positionText}: the stream does not end with this event`);
    return history;
  }
}

function evolveState(state: AppointmentState, event: RecordedEvent<AppointmentEvent>): AppointmentState {
  const { id, position } = event;
  const lastSentEvent = isSentAppointmentEvent(event) ? { id, position } : state.lastSentEvent;
  try {
    return { appointment: appointmentAggregate.evolve(state.appointment, event), lastSentEvent };
  } catch (cause) {
    throw new RelayError(`${describeLogPosition(event)}: ${event.type} does not fit the appointment`, { cause });
  }
}
