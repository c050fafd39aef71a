import type { ClientBase, Pool } from "pg";

/** Events of a stream that the read models lack: all from a revision on. */
export interface SkippedEvents {
  revision: bigint;
  /** Position of the first skipped event. */
  position: bigint;
  /** Number of skipped events. */
  events: bigint;
}

/** Reads the events that the read models of a schema lack, by stream. */
export async function readSkipped(
  db: Pool | ClientBase,
  schema: string,
): Promise<Map<string, SkippedEvents>> {
  const { rows } = await db.query<SkippedEvents & { stream: string }>(
    `SELECT stream, revision, position, events FROM ${schema}.passed_over`,
  );
  return new Map(rows.map(({ stream, ...passed }) => [stream, passed]));
}

/** Records skipped events. */
export async function addSkipped(
  client: ClientBase,
  schema: string,
  passed: ReadonlyMap<string, SkippedEvents>,
): Promise<void> {
  for (const [stream, { revision, position, events }] of passed) {
    await client.query(
      `INSERT INTO ${schema}.passed_over AS p (stream, revision, position, events) VALUES ($1, $2, $3, $4)
       ON CONFLICT (stream) DO UPDATE SET events = p.events + excluded.events`,
      [stream, revision, position, events],
    );
  }
}

type Gap = Pick<SkippedEvents, "revision" | "position">;

/** Streams that a run skips, with the first skipped event of each. */
export type Gaps = ReadonlyMap<string, Gap>;

/** Parked streams that a run must skip. */
export interface Parked {
  streams: Gaps;
  /** Revision of the last parking event in this list. */
  upTo: bigint;
}

/**
 * Returns the streams that a run skips if it continues from a checkpoint. It keeps skipping the streams that its tables
 * already lack events of, even if they were resumed, and skips parked streams whose failed event is still ahead. A stream
 * whose event was processed before it was parked is not skipped. Pure.
 */
export function gapsOf(parked: Parked, passed: Gaps, checkpoint: bigint): Gaps {
  const ahead = [...parked.streams].filter(([, { position }]) => position > checkpoint);
  return new Map([...ahead, ...passed]);
}

/** Returns true if tables at a checkpoint lack exactly the events of the parked streams. Pure. */
export function matchesParked(parked: Parked, passed: Gaps, checkpoint: bigint): boolean {
  const ought = [...parked.streams].filter(([, { position }]) => position <= checkpoint);
  return (
    ought.length === passed.size &&
    ought.every(([stream, { revision }]) => passed.get(stream)?.revision === revision)
  );
}
