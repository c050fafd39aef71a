import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { EventMetadata } from "../../../shared/domain/events/metadata.ts";
import type { EventLog, RecordedEvent } from "../../../shared/eventstore/log.ts";

/** The command was applied before: its events are in the log. */
export class AlreadyAppliedError extends Error {
  override readonly name = "AlreadyAppliedError";
}

/** Identifies a command of a list that may be run again from the start. */
export interface RepeatableCommand {
  /** The stream that the command changes. */
  stream: string;
  /** Id of the command, the same in every run. The command's events have it as their `$causationId`. */
  causationId: string;
  /** Returns whether a later command of the same list caused an event. */
  isLater(metadata: EventMetadata): boolean;
}

/**
 * Creates an event log on which a command takes effect at most once. The command's stream is read before any rule is
 * checked. If the stream contains an event of the command or of a later command in the list, the command was applied.
 * Rules that would refuse the command now, such as a closed clinic, then have no effect. Each later read of the
 * stream checks again, because an append that timed out may arrive late.
 *
 * @throws {AlreadyAppliedError} from this function and from every read of the command's stream
 * @throws {LogUnavailableError}
 */
export async function createIdempotentEventLog(log: EventLog, command: RepeatableCommand): Promise<EventLog> {
  const { stream, causationId, isLater } = command;
  const own = createRecognizingEventLog(
    log,
    (metadata) => metadata.$causationId === causationId || isLater(metadata),
  );
  // The command's first read reuses these events to save a request to the log.
  let first: RecordedEvent[] | undefined = await own.read(stream);
  const once: EventLog = {
    async read<Event extends CatalogEvent>(name: string, upTo?: bigint) {
      if (name !== stream) return log.read<Event>(name, upTo);
      const events = first ?? (await own.read(stream));
      first = undefined;
      const wanted = upTo === undefined ? events : events.filter(({ revision }) => revision <= upTo);
      return wanted as RecordedEvent<Event>[];
    },
    async readLast<Event extends CatalogEvent>(name: string) {
      return name === stream ? (await once.read<Event>(name)).at(-1) : log.readLast<Event>(name);
    },
    append: (name, expectedRevision, events) => log.append(name, expectedRevision, events),
  };
  return once;
}

/**
 * Creates an event log whose reads throw if a stream contains an event of the command.
 *
 * @param isOwn returns whether metadata belongs to an event of the command
 * @throws {AlreadyAppliedError} from reads
 */
export function createRecognizingEventLog(
  log: EventLog,
  isOwn: (metadata: EventMetadata) => boolean,
): EventLog {
  const recognising: EventLog = {
    async read<Event extends CatalogEvent>(stream: string, upTo?: bigint) {
      const events = await log.read<Event>(stream, upTo);
      if (events.some(({ metadata }) => isOwn(metadata))) throw new AlreadyAppliedError();
      return events;
    },
    async readLast<Event extends CatalogEvent>(stream: string) {
      return (await recognising.read<Event>(stream)).at(-1);
    },
    append: (stream, expectedRevision, events) => log.append(stream, expectedRevision, events),
  };
  return recognising;
}
