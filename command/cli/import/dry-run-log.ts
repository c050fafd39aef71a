import fs from "node:fs";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import {
  EMPTY_STREAM,
  type EventLog,
  type NewEvent,
  requireAppendable,
  WrongExpectedRevisionError,
} from "../../../shared/eventstore/log.ts";
import { openTemporaryFile } from "./import-lines.ts";
import { toRecordedEvents } from "./line-log.ts";

/** A stream to which the dry run has appended. */
interface ExtendedStream {
  /** Last revision in the event log. */
  loggedRevision: bigint;
  lastRevision: bigint;
  /** Position and length of each append in the file. */
  sections: { position: number; length: number }[];
}

/**
 * Calls a function with an event log for a dry run. Appends are decided like those of the given log, but go to a
 * temporary file. The memory for an append therefore does not depend on its size.
 */
export async function withDryRunLog<Result>(log: EventLog, run: (log: EventLog) => Promise<Result>): Promise<Result> {
  const fd = openTemporaryFile();
  try {
    return await run(createDryRunLog(log, fd));
  } finally {
    fs.closeSync(fd);
  }
}

function createDryRunLog(log: EventLog, fd: number): EventLog {
  const extendedStreams = new Map<string, ExtendedStream>();
  let fileLength = 0;

  function readSections(stream: string, { loggedRevision, sections }: ExtendedStream): RecordedEvent[] {
    const newEvents = sections.flatMap(({ position, length }) => {
      const buffer = Buffer.alloc(length);
      fs.readSync(fd, buffer, { position });
      return JSON.parse(buffer.toString()) as NewEvent[];
    });
    return toRecordedEvents(stream, loggedRevision, newEvents, 0n);
  }

  async function startStream(stream: string): Promise<ExtendedStream> {
    const loggedRevision = (await log.readLast(stream))?.revision ?? EMPTY_STREAM;
    return { loggedRevision, lastRevision: loggedRevision, sections: [] };
  }

  const dryRunLog: EventLog = {
    async read<Event extends CatalogEvent>(stream: string, maxRevision?: bigint) {
      const extendedStream = extendedStreams.get(stream);
      if (!extendedStream) return log.read<Event>(stream, maxRevision);
      const { loggedRevision } = extendedStream;
      const loggedEvents = loggedRevision === EMPTY_STREAM ? [] : await log.read<Event>(stream, loggedRevision);
      const events = [...loggedEvents, ...readSections(stream, extendedStream)] as RecordedEvent<Event>[];
      return maxRevision === undefined ? events : events.filter(({ revision }) => revision <= maxRevision);
    },

    async readLast<Event extends CatalogEvent>(stream: string, maxRevision?: bigint) {
      if (!extendedStreams.has(stream)) return log.readLast<Event>(stream, maxRevision);
      return (await dryRunLog.read<Event>(stream, maxRevision)).at(-1);
    },

    async append(stream, expectedRevision, events) {
      requireAppendable(stream, expectedRevision, events);
      const extendedStream = extendedStreams.get(stream) ?? (await startStream(stream));
      if (extendedStream.lastRevision !== expectedRevision)
        throw new WrongExpectedRevisionError(`${stream} is not at revision ${expectedRevision}`);
      const bytes = Buffer.from(JSON.stringify(events));
      fs.writeSync(fd, bytes, 0, bytes.length, fileLength);
      extendedStream.sections.push({ position: fileLength, length: bytes.length });
      extendedStream.lastRevision += BigInt(events.length);
      extendedStreams.set(stream, extendedStream);
      fileLength += bytes.length;
      return 0n;
    },
  };
  return dryRunLog;
}
