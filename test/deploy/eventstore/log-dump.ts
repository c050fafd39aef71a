import { END, type EventStoreDBClient } from "@eventstore/db-client";
import { collect } from "../../conformance/log-under-test.ts";

/** Reads all events, and each given stream with its metadata. If a read fails, the dump contains the error's name. */
export async function dumpLog(client: EventStoreDBClient, streams: readonly string[]) {
  const all = await collect(client.readAll());
  const backwards = await collect(client.readAll({ direction: "backwards", fromPosition: END }));
  const byStream: Record<string, unknown> = {};
  for (const stream of streams) {
    byStream[stream] = {
      events: await collect(client.readStream(stream)).then(
        (read) => read.map(({ event }) => place(event)),
        nameOf,
      ),
      metadata: await client.getStreamMetadata(stream).then(({ metadata }) => metadata ?? null, nameOf),
    };
  }
  return {
    all: all.map(({ event }) => full(event)),
    backwards: backwards.map(({ event }) => place(event)),
    byStream,
  };
}

type ReadEvent = NonNullable<Awaited<ReturnType<typeof collect<{ event?: unknown }>>>[number]["event"]>;

function full(event: ReadEvent | undefined) {
  const { id, type, isJson, created, data, metadata } = event as Record<string, unknown>;
  const content = [data, metadata].map((part) =>
    part instanceof Uint8Array ? Buffer.from(part).toString("hex") : part,
  );
  return [place(event), id, type, isJson, (created as Date).toISOString(), ...content];
}

function place(event: ReadEvent | undefined): string {
  const { streamId, revision, position } = event as {
    streamId: string;
    revision: bigint;
    position: { commit: bigint; prepare: bigint };
  };
  return `${position.commit}/${position.prepare} ${streamId} ${revision}`;
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.constructor.name : String(error);
}
