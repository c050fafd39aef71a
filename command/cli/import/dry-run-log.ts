import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import {
  EMPTY_STREAM,
  type EventLog,
  type NewEvent,
  requireAppendable,
  WrongExpectedRevisionError,
} from "../../../shared/eventstore/log.ts";
import { toRecordedEvents } from "./line-log.ts";

/** A stream to which the dry run has appended. */
interface ExtendedStream {
  /** Last revision of the stream in the event log, without the appends of the dry run. `revision` includes them. */
  loggedRevision: bigint;
  revision: bigint;
  /** The appended events as JSON, one buffer for each append. Objects would need three times as much memory. */
  appends: Buffer[];
}

/** Creates an event log for a dry run. It checks appends as the given log would, but keeps the events in memory. */
export function createDryRunLog(log: EventLog): EventLog {
  const streams = new Map<string, ExtendedStream>();

  async function read<Event extends CatalogEvent>(stream: string, maxRevision?: bigint) {
    const extended = streams.get(stream);
    if (!extended) return log.read<Event>(stream, maxRevision);
    const { loggedRevision, revision: lastRevision, appends } = extended;
    const newEvents = appends.flatMap((json) => JSON.parse(json.toString()) as NewEvent[]);
    const loggedEvents = loggedRevision === EMPTY_STREAM ? [] : await log.read<Event>(stream, loggedRevision);
    const events = [...loggedEvents, ...toRecordedEvents(stream, loggedRevision, newEvents, 0n)];
    return events.filter(({ revision }) => revision <= (maxRevision ?? lastRevision)) as RecordedEvent<Event>[];
  }

  return {
    read,
    readLast: async <Event extends CatalogEvent>(stream: string, maxRevision?: bigint) =>
      streams.has(stream) ? (await read<Event>(stream, maxRevision)).at(-1) : log.readLast<Event>(stream, maxRevision),
    async append(stream, expectedRevision, events) {
      requireAppendable(stream, expectedRevision, events);
      let extended = streams.get(stream);
      if (!extended) {
        const loggedRevision = (await log.readLast(stream))?.revision ?? EMPTY_STREAM;
        extended = { loggedRevision, revision: loggedRevision, appends: [] };
      }
      if (extended.revision !== expectedRevision)
        throw new WrongExpectedRevisionError(`${stream} is not at revision ${expectedRevision}`);
      extended.appends.push(Buffer.from(JSON.stringify(events)));
      extended.revision += BigInt(events.length);
      streams.set(stream, extended);
      return 0n;
    },
  };
}
