import { type EventStoreDBClient, jsonEvent, NO_STREAM, WrongExpectedVersionError } from "@eventstore/db-client";
import {
  createEventLog,
  EMPTY_STREAM,
  type EventLog,
  toLogError,
  WrongExpectedRevisionError,
} from "../../shared/eventstore/log.ts";
import { sharedDataKeys } from "./data-keys.ts";

/**
 * Creates an event log that appends personal data in plain text. All readers accept such events, so that services with
 * any store of data keys can read them. Reads decrypt what commands have stored with the shared data keys of tests.
 */
export function createPlainLog(client: EventStoreDBClient): EventLog {
  const log = createEventLog(client, { dataKeys: sharedDataKeys });
  return {
    ...log,
    append: async (stream, expectedRevision, events) => {
      const eventData = events.map(({ id, event, metadata }) =>
        jsonEvent({
          id,
          type: event.type,
          data: event.data as Record<string, unknown>,
          metadata: { ...metadata, schemaVersion: 1 },
        }),
      );
      try {
        const { position } = await client.appendToStream(stream, eventData, {
          expectedRevision: expectedRevision === EMPTY_STREAM ? NO_STREAM : expectedRevision,
        });
        return position?.commit ?? 0n;
      } catch (error) {
        if (error instanceof WrongExpectedVersionError) throw new WrongExpectedRevisionError(error.message);
        throw toLogError(error);
      }
    },
  };
}
