import { END, type EventStoreDBClient } from "@eventstore/db-client";
import { collect } from "../../conformance/log-under-test.ts";

/**
 * Reads all events, and the events and metadata of each given stream. If a read fails, the dump contains the error's
 * name.
 */
export async function dumpLog(client: EventStoreDBClient, streams: readonly string[]) {
  const allEvents = await collect(client.readAll());
  const backwardEvents = await collect(client.readAll({ direction: "backwards", fromPosition: END }));
  const byStream: Record<string, unknown> = {};
  for (const stream of streams) {
    byStream[stream] = {
      events: await collect(client.readStream(stream)).then(
        (resolvedEvents) => resolvedEvents.map(({ event }) => dumpPosition(event)),
        getErrorName,
      ),
      metadata: await client.getStreamMetadata(stream).then(({ metadata }) => metadata ?? null, getErrorName),
    };
  }
  return {
    all: allEvents.map(({ event }) => dumpEvent(event)),
    backwards: backwardEvents.map(({ event }) => dumpPosition(event)),
    byStream,
  };
}

type ReadEvent = NonNullable<Awaited<ReturnType<typeof collect<{ event?: unknown }>>>[number]["event"]>;

function dumpEvent(event: ReadEvent | undefined) {
  const { id, type, isJson, created, data, metadata } = event as Record<string, unknown>;
  const content = [data, metadata].map((field) =>
    field instanceof Uint8Array ? Buffer.from(field).toString("hex") : field,
  );
  return [dumpPosition(event), id, type, isJson, (created as Date).toISOString(), ...content];
}

function dumpPosition(event: ReadEvent | undefined): string {
  const { streamId, revision, position } = event as {
    streamId: string;
    revision: bigint;
    position: { commit: bigint; prepare: bigint };
  };
  return `${position.commit}/${position.prepare} ${streamId} ${revision}`;
}

function getErrorName(error: unknown): string {
  return error instanceof Error ? error.constructor.name : String(error);
}
