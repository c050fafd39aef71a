import type { ClientBase, Pool } from "pg";

/** Events of one stream that the read models lack: all events from a revision on. */
export interface SkippedEvents {
  revision: bigint;
  position: bigint;
  events: bigint;
}

/** Reads the events that the read models of a schema lack, by stream. */
export async function readSkippedEvents(db: Pool | ClientBase, schema: string): Promise<Map<string, SkippedEvents>> {
  const { rows } = await db.query<SkippedEvents & { stream: string }>(
    `SELECT stream, revision, position, events FROM ${schema}.quarantined_stream`,
  );
  return new Map(rows.map(({ stream, ...skippedEvents }) => [stream, skippedEvents]));
}

export async function recordSkippedEvents(
  client: ClientBase,
  schema: string,
  skippedEvents: ReadonlyMap<string, SkippedEvents>,
): Promise<void> {
  for (const [stream, { revision, position, events }] of skippedEvents) {
    await client.query(
      `INSERT INTO ${schema}.quarantined_stream AS p (stream, revision, position, events) VALUES ($1, $2, $3, $4)
       ON CONFLICT (stream) DO UPDATE SET events = p.events + excluded.events`,
      [stream, revision, position, events],
    );
  }
}

type FirstSkippedEvent = Pick<SkippedEvents, "revision" | "position">;

export type StreamsToSkip = ReadonlyMap<string, FirstSkippedEvent>;

export interface QuarantinedStreams {
  streams: StreamsToSkip;
  /** Revision of the last quarantine event that is reflected in `streams`. */
  lastRevision: bigint;
}

/**
 * Returns the streams that a projection run must skip if it starts at a checkpoint. Pure. There are two kinds:
 * - Quarantined streams whose first quarantined event comes after the checkpoint.
 * - Streams with events that the tables already lack, even if the stream was resumed.
 */
export function findStreamsToSkip(
  quarantinedStreams: QuarantinedStreams,
  skippedStreams: StreamsToSkip,
  checkpointPosition: bigint,
): StreamsToSkip {
  const streamsAhead = [...quarantinedStreams.streams].filter(([, { position }]) => position > checkpointPosition);
  return new Map([...streamsAhead, ...skippedStreams]);
}

/**
 * Returns true if tables at a checkpoint lack all quarantined events up to the checkpoint, and no other events. Pure.
 */
export function isMissingOnlyQuarantinedEvents(
  quarantinedStreams: QuarantinedStreams,
  skippedStreams: StreamsToSkip,
  checkpointPosition: bigint,
): boolean {
  const expectedStreams = [...quarantinedStreams.streams].filter(([, { position }]) => position <= checkpointPosition);
  return (
    expectedStreams.length === skippedStreams.size &&
    expectedStreams.every(([stream, { revision }]) => skippedStreams.get(stream)?.revision === revision)
  );
}
