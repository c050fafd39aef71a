import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { EventMetadata } from "../../../shared/domain/events/metadata.ts";
import type { EventLog, RecordedEvent } from "../../../shared/eventstore/log.ts";

/** An earlier run applied the command: the command's events are in the log. */
export class AlreadyAppliedError extends Error {
  override readonly name = "AlreadyAppliedError";
}

/** Identifies a command in a list of commands. The whole list may be run repeatedly. */
export interface RepeatableCommand {
  /** Stream that the command changes. */
  stream: string;
  /** Id of the command, the same in every run. The command's events have this id as their `$causationId`. */
  causationId: string;
  /** Returns true if a later command of the same list caused the event with this metadata. */
  isCausedByLaterCommand(metadata: EventMetadata): boolean;
}

/**
 * Creates an event log on which a command takes effect at most once. The command's stream is read before any rule is
 * checked. If the stream contains an event of the command or of a later command in the list, the command was applied.
 * Rules are then not checked, so the command is not refused even if the clinic was closed later. Every read of the
 * stream repeats the check, because an append that timed out may still arrive.
 *
 * @throws {AlreadyAppliedError} if the command was applied; each later read of the command's stream throws the same
 *   error
 * @throws {LogUnavailableError}
 */
export async function createIdempotentEventLog(log: EventLog, command: RepeatableCommand): Promise<EventLog> {
  const { stream, causationId, isCausedByLaterCommand } = command;
  const commandLog = createRecognizingEventLog(
    log,
    (metadata) => metadata.$causationId === causationId || isCausedByLaterCommand(metadata),
  );
  // The command's first read of the stream returns these events, which saves one request to the log.
  let firstRead: RecordedEvent[] | undefined = await commandLog.read(stream);
  const idempotentLog: EventLog = {
    ...log,
    async read<Event extends CatalogEvent>(name: string, upTo?: bigint) {
      if (name !== stream) return log.read<Event>(name, upTo);
      const events = firstRead ?? (await commandLog.read(stream));
      firstRead = undefined;
      const selected = upTo === undefined ? events : events.filter(({ revision }) => revision <= upTo);
      return selected as RecordedEvent<Event>[];
    },
    async readLast<Event extends CatalogEvent>(name: string) {
      return name === stream ? (await idempotentLog.read<Event>(name)).at(-1) : log.readLast<Event>(name);
    },
  };
  return idempotentLog;
}

/**
 * Creates an event log whose reads throw if a stream contains an event of the command.
 *
 * @param isOwn returns true for the metadata of an event of the command
 * @throws {AlreadyAppliedError} from the reads of the event log
 */
export function createRecognizingEventLog(log: EventLog, isOwn: (metadata: EventMetadata) => boolean): EventLog {
  const recognizingLog: EventLog = {
    ...log,
    async read<Event extends CatalogEvent>(stream: string, upTo?: bigint) {
      const events = await log.read<Event>(stream, upTo);
      if (events.some(({ metadata }) => isOwn(metadata))) throw new AlreadyAppliedError();
      return events;
    },
    async readLast<Event extends CatalogEvent>(stream: string) {
      return (await recognizingLog.read<Event>(stream)).at(-1);
    },
  };
  return recognizingLog;
}
