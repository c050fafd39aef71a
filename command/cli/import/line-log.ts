import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { EventMetadata } from "../../../shared/domain/events/metadata.ts";
import { type EventLog, type RecordedEvent, WrongExpectedRevisionError } from "../../../shared/eventstore/log.ts";
import { AlreadyAppliedError } from "./idempotent-log.ts";
import type { StreamCache } from "./stream-cache.ts";

/** An assumption about a stream was wrong, or cannot be verified. The command had no effect and must be repeated. */
export class UnverifiedAssumptionError extends Error {
  override readonly name = "UnverifiedAssumptionError";
}

export interface LineLogOptions {
  /** Stream that the line changes. */
  stream: string;
  /** Returns true for the metadata of an event which shows that an earlier run applied the line. */
  isApplied(metadata: EventMetadata): boolean;
  /**
   * If true, the line's stream is assumed not to exist, unless it is in memory. Only an append to this stream verifies
   * the assumption, so any other outcome of the command must be ignored.
   */
  assumesNew: boolean;
  /** If true, all other streams are read from the event log. Otherwise they may come from memory. */
  refreshesOtherStreams: boolean;
}

/**
 * Creates the event log for one line of an import. Every read of the line's stream checks whether the line was already
 * applied, because an append that timed out may still arrive.
 *
 * @throws {AlreadyAppliedError} from reads of the line's stream, if the line was already applied
 * @throws {UnverifiedAssumptionError} from appends, if the assumption that the line's stream does not exist is wrong
 *   or would remain unverified
 */
export function createLineLog(cache: StreamCache, options: LineLogOptions): EventLog {
  const { stream, isApplied, assumesNew, refreshesOtherStreams } = options;

  async function readOwnStream(): Promise<RecordedEvent[]> {
    const cachedEvents = cache.find(stream);
    const events = await (cachedEvents ?? (assumesNew ? [] : cache.refresh(stream)));
    if (events.some(({ metadata }) => isApplied(metadata))) throw new AlreadyAppliedError();
    return events;
  }

  const lineLog: EventLog = {
    async read<Event extends CatalogEvent>(name: string, lastRevision?: bigint) {
      if (name !== stream && !refreshesOtherStreams) return cache.read<Event>(name, lastRevision);
      const events = await (name === stream ? readOwnStream() : cache.refresh(name));
      return (
        lastRevision === undefined ? events : events.filter(({ revision }) => revision <= lastRevision)
      ) as RecordedEvent<Event>[];
    },
    async readLast<Event extends CatalogEvent>(name: string) {
      return name === stream ? (await lineLog.read<Event>(name)).at(-1) : cache.readLast<Event>(name);
    },
    async append(name, expectedRevision, events) {
      if (!assumesNew) return cache.append(name, expectedRevision, events);
      if (name !== stream) throw new UnverifiedAssumptionError(`${stream} has not been verified`);
      try {
        return await cache.append(name, expectedRevision, events);
      } catch (error) {
        if (error instanceof WrongExpectedRevisionError)
          throw new UnverifiedAssumptionError(`${stream} has changed`, { cause: error });
        throw error;
      }
    },
  };
  return lineLog;
}
