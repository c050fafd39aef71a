import { type EventStoreDBClient, StreamDeletedError } from "@eventstore/db-client";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { appendEvents, UnexpectedRevisionError } from "../../shared/eventstore/append.ts";
import {
  createEventLog,
  type EventLog,
  REQUEST_TIMEOUT_MS,
  toAppendError,
  WrongExpectedRevisionError,
} from "../../shared/eventstore/log.ts";
import { sharedDataKeys } from "./data-keys.ts";

/**
 * Creates an event log that appends personal data as plain text. Services with any data keys can read it. Reads also
 * decrypt events that commands encrypted with `sharedDataKeys`.
 */
export function createPlainLog(client: EventStoreDBClient): EventLog {
  const log = createEventLog(client, { dataKeys: sharedDataKeys });
  return {
    ...log,
    append: async (stream, expectedRevision, events) => {
      const proposedEvents = events.map(({ id, event, metadata }) => ({
        id,
        type: event.type,
        contentType: "application/json",
        data: Buffer.from(JSON.stringify(event.data)),
        metadata: Buffer.from(JSON.stringify({ ...metadata, schemaVersion: 1 })),
      }));
      try {
        return await appendEvents(client, stream, expectedRevision, proposedEvents, REQUEST_TIMEOUT_MS);
      } catch (error) {
        if (error instanceof UnexpectedRevisionError) throw new WrongExpectedRevisionError(error.message);
        if (error instanceof StreamDeletedError) throw new DomainError("object_deleted", error.message);
        throw toAppendError(error);
      }
    },
  };
}
