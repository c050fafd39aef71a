/**
 * Streams.Read with a subscription: sends all events after the start position and then each new event, until the client
 * disconnects.
 *
 * The catch-up phase and the live phase share one cursor, which advances with each event. So the subscription neither
 * skips nor repeats an event when it becomes live.
 */
import { randomUUID } from "node:crypto";
import { type LogEvent, readEventType, readStreamName, TOMBSTONE_EVENT_TYPE } from "../model/record.ts";
import { getFirstReadableRevision } from "../model/stream-metadata.ts";
import { readAllEvents } from "../storage/log-reader.ts";
import { createStreamDeletedError } from "./errors.ts";
import {
  encodeCaughtUp,
  encodeCheckpoint,
  encodeConfirmation,
  getMinCreationTime,
  type ReadContext,
  resolveStart,
  sendEvent,
  sendRevisions,
} from "./read.ts";

/**
 * Runs a subscription until the client disconnects.
 * @throws CallError if the stream is or becomes tombstoned
 */
export async function subscribe(context: ReadContext): Promise<void> {
  const { store, writer, request } = context;
  const { stream } = request;
  if (stream !== undefined && store.getStreamState(stream).isTombstoned) throw createStreamDeletedError(stream);
  const stopListening = store.onCommit(() => writer.wake());
  try {
    writer.send(encodeConfirmation(randomUUID()));
    if (stream === undefined) await followLog(context);
    else await followStream(context, stream);
  } finally {
    stopListening();
  }
}

/**
 * Sends the events that reads of the stream return, and then each new event. As in EventStoreDB, `$maxCount`, `$maxAge`
 * and `$tb` do not hide new events.
 */
async function followStream(context: ReadContext, stream: string): Promise<void> {
  const { store, writer, request } = context;
  let revision = resolveStart(request.start, -1, store.getStreamState(stream).lastRevision) + 1;
  let isLive = false;
  let seenPosition = store.lastPosition;
  while (!writer.isClosed) {
    const previousPosition = seenPosition;
    seenPosition = store.lastPosition;
    const state = store.getStreamState(stream);
    const { lastRevision } = state;
    if (state.isTombstoned && !isLive) throw createStreamDeletedError(stream);
    const oldestRevision = state.isSoftDeleted ? lastRevision + 1 : getFirstReadableRevision(stream, state);
    const fromRevision = isLive ? revision : Math.max(revision, oldestRevision);
    const minCreatedAt = isLive ? undefined : getMinCreationTime(state);
    const limits = { count: Number.POSITIVE_INFINITY, minCreatedAt };
    if (fromRevision <= lastRevision) await sendRevisions(context, stream, fromRevision, lastRevision, limits);
    if (state.isTombstoned) {
      await sendTombstone(context, stream, previousPosition);
      throw createStreamDeletedError(stream);
    }
    revision = Math.max(revision, lastRevision + 1);
    if (!isLive) writer.send(encodeCaughtUp());
    isLive = true;
    await writer.waitUntil(() => store.lastPosition !== seenPosition);
  }
}

async function sendTombstone(context: ReadContext, stream: string, fromPosition: number): Promise<void> {
  const isTombstone = ({ record }: LogEvent) =>
    readEventType(record) === TOMBSTONE_EVENT_TYPE && readStreamName(record) === stream;
  for await (const page of readAllEvents(context.store.log, fromPosition + 1, false)) {
    const tombstone = page.find(isTombstone);
    if (tombstone === undefined) continue;
    sendEvent(context, tombstone);
    return;
  }
}

async function followLog(context: ReadContext): Promise<void> {
  const { store, writer, request } = context;
  const { filter } = request;
  let lastPosition = resolveStart(request.start, 0, store.lastPosition);
  let lastCheckpoint = lastPosition;
  let eventsSinceCheckpoint = 0;
  let isLive = false;
  const sendCheckpoint = async () => {
    eventsSinceCheckpoint = 0;
    lastCheckpoint = lastPosition;
    if (writer.send(encodeCheckpoint(lastPosition))) await writer.waitForDrain();
  };
  const sendEvents = async (events: readonly LogEvent[]) => {
    for (const event of events) {
      lastPosition = event.position;
      const isMatch = filter === undefined || filter.matches(event.record);
      if (isMatch && sendEvent(context, event)) await writer.waitForDrain();
      eventsSinceCheckpoint += 1;
      if (filter === undefined || eventsSinceCheckpoint < filter.checkpointInterval) continue;
      await sendCheckpoint();
      if (writer.isClosed) return;
    }
  };
  while (!writer.isClosed) {
    const recentEvents = store.recentEvents.findAfter(lastPosition);
    if (recentEvents === undefined) {
      isLive = false;
      for await (const page of readAllEvents(store.log, lastPosition + 1, false)) {
        await sendEvents(page);
        if (writer.isClosed) return;
      }
    } else if (recentEvents.length > 0) await sendEvents(recentEvents);
    else {
      if (!isLive) {
        // The client can resume from this checkpoint even if the filter matched no event.
        if (filter !== undefined && lastCheckpoint !== lastPosition) await sendCheckpoint();
        writer.send(encodeCaughtUp());
        isLive = true;
      }
      await writer.waitUntil(() => store.lastPosition > lastPosition);
    }
  }
}
