import type { ClientBase, Pool } from "pg";

/** What read models leave out of a stream: everything from a revision on. */
export interface SkippedEvents {
  revision: bigint;
  /** Of the first event that was left out. */
  position: bigint;
  /** How many were. */
  events: bigint;
}

/** What the read models of a schema leave out, by stream. */
export async function readSkipped(
  db: Pool | ClientBase,
  schema: string,
): Promise<Map<string, SkippedEvents>> {
  const { rows } = await db.query<SkippedEvents & { stream: string }>(
    `SELECT stream, revision, position, events FROM ${schema}.passed_over`,
  );
  return new Map(rows.map(({ stream, ...passed }) => [stream, passed]));
}

/** Adds to what is left out. */
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

/** Streams that a run passes over, and from where on. */
export type Gaps = ReadonlyMap<string, Gap>;

/** The streams that a run is to pass over when it comes to them. */
export interface Parked {
  streams: Gaps;
  /** The revision of the last act of parking or resuming that it knows of. */
  upTo: bigint;
}

/**
 * What a run passes over that goes on from a checkpoint: what its tables leave out already, as long as they are these
 * tables, whatever has become of the stream since, and each parked stream whose place is still to come. One that was
 * taken before it was parked has no gap, so it is taken on. Pure.
 */
export function gapsOf(parked: Parked, passed: Gaps, checkpoint: bigint): Gaps {
  const ahead = [...parked.streams].filter(([, { position }]) => position > checkpoint);
  return new Map([...ahead, ...passed]);
}

/** Whether tables that reflect the log up to a checkpoint leave out what is parked, and nothing else. Pure. */
export function matchesParked(parked: Parked, passed: Gaps, checkpoint: bigint): boolean {
  const ought = [...parked.streams].filter(([, { position }]) => position <= checkpoint);
  return (
    ought.length === passed.size &&
    ought.every(([stream, { revision }]) => passed.get(stream)?.revision === revision)
  );
}
