import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { EventMetadata } from "../../../shared/domain/events/metadata.ts";
import type { EventLog, RecordedEvent } from "../../../shared/eventstore/log.ts";

/** The command was applied before: a stream holds its events. */
export class AlreadyApplied extends Error {
  override readonly name = "AlreadyApplied";
}

/** Identifies one command of a list that can be run again from its start. */
export interface RepeatableCommand {
  /** The stream that the command changes. */
  stream: string;
  /** The command's id, the same at each repetition. The command's events carry it as their `$causationId`. */
  causationId: string;
  /** Tells whether an event was caused by a later command of the same list. */
  isLater(metadata: EventMetadata): boolean;
}

/**
 * Returns a log on which a command takes effect once, however often it is repeated. The command's stream is read before
 * any rule is checked. If it holds an event of the command, or of a later command in the list, the command was applied:
 * rules that refuse it by now, such as a closed clinic, do not matter. Each later read of the stream checks again,
 * because an append that timed out may arrive late.
 *
 * @throws {AlreadyApplied} here, and from every read of the command's stream
 * @throws {LogUnavailable}
 */
export async function createIdempotentEventLog(log: EventLog, command: RepeatableCommand): Promise<EventLog> {
  const { stream, causationId, isLater } = command;
  const own = createRecognizingEventLog(
    log,
    (metadata) => metadata.$causationId === causationId || isLater(metadata),
  );
  // The command's first read gets these events, so that the check costs no further exchange with the log.
  let first: RecordedEvent[] | undefined = await own.read(stream);
  const once: EventLog = {
    async read<Event extends CatalogEvent>(name: string, upTo?: bigint) {
      if (name !== stream) return log.read<Event>(name, upTo);
      const events = first ?? (await own.read(stream));
      first = undefined;
      const wanted = upTo === undefined ? events : events.filter(({ revision }) => revision <= upTo);
      return wanted as RecordedEvent<Event>[];
    },
    async last<Event extends CatalogEvent>(name: string) {
      return name === stream ? (await once.read<Event>(name)).at(-1) : log.last<Event>(name);
    },
    append: (name, expectedRevision, events) => log.append(name, expectedRevision, events),
  };
  return once;
}

/**
 * Returns a log whose reads end a command as soon as they find one of its events, in any stream.
 *
 * @param isOwn tells the command's events by their metadata
 * @throws {AlreadyApplied} from reads
 */
export function createRecognizingEventLog(
  log: EventLog,
  isOwn: (metadata: EventMetadata) => boolean,
): EventLog {
  const recognising: EventLog = {
    async read<Event extends CatalogEvent>(stream: string, upTo?: bigint) {
      const events = await log.read<Event>(stream, upTo);
      if (events.some(({ metadata }) => isOwn(metadata))) throw new AlreadyApplied();
      return events;
    },
    async last<Event extends CatalogEvent>(stream: string) {
      return (await recognising.read<Event>(stream)).at(-1);
    },
    append: (stream, expectedRevision, events) => log.append(stream, expectedRevision, events),
  };
  return recognising;
}
