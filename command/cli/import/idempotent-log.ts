import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { EventMetadata } from "../../../shared/domain/events/metadata.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";

/** An earlier run applied the command: the command's events are in the log. */
export class AlreadyAppliedError extends Error {
  override readonly name = "AlreadyAppliedError";
}

/**
 * Creates an event log whose reads throw if a stream contains an event of the command.
 *
 * @param isOwnEvent returns true for the metadata of an event of the command
 * @throws {AlreadyAppliedError} from the reads of the event log
 */
export function createRecognizingEventLog(log: EventLog, isOwnEvent: (metadata: EventMetadata) => boolean): EventLog {
  const recognizingLog: EventLog = {
    ...log,
    async read<Event extends CatalogEvent>(stream: string, lastRevision?: bigint) {
      const events = await log.read<Event>(stream, lastRevision);
      if (events.some(({ metadata }) => isOwnEvent(metadata))) throw new AlreadyAppliedError();
      return events;
    },
    async readLast<Event extends CatalogEvent>(stream: string) {
      return (await recognizingLog.read<Event>(stream)).at(-1);
    },
  };
  return recognizingLog;
}
