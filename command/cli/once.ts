import type { EventMetadata } from "../../shared/events/metadata.ts";
import type { CatalogEvent } from "../../shared/events/registry.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";

/** The command was carried out before: the stream that it changes holds its events. */
export class AlreadyDone extends Error {
  override readonly name = "AlreadyDone";
}

/**
 * The log as a command sees it that must have its effect once, however often it is repeated: as soon as it reads a
 * stream with an event that it caused itself, it ends with {@link AlreadyDone}. So a list of commands (suspend, then
 * reinstate) can be run again from its start, after a kill too, without going through the same moves again.
 *
 * @param causationId the command's own id, the same at each repetition
 * @param isLater whether an event was caused by a command that comes after this one in the list: a stream that has
 *   gone on to it has had this one too, which then changed nothing, and would change what came later
 */
export function onceOnly(
  log: EventLog,
  causationId: string,
  isLater: (metadata: EventMetadata) => boolean = () => false,
): EventLog {
  const goneOn = new Set<string>();
  return {
    async read<Event extends CatalogEvent>(stream: string, upTo?: bigint) {
      const events = await log.read<Event>(stream, upTo);
      if (events.some(({ metadata }) => metadata.$causationId === causationId)) throw new AlreadyDone();
      if (events.some(({ metadata }) => isLater(metadata))) goneOn.add(stream);
      return events;
    },
    async last<Event extends CatalogEvent>(stream: string) {
      return (await this.read<Event>(stream)).at(-1);
    },
    async append(stream, expectedRevision, events) {
      if (goneOn.has(stream)) throw new AlreadyDone();
      return log.append(stream, expectedRevision, events);
    },
  };
}
