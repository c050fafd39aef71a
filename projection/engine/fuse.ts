import type { Pool } from "pg";
import { isCatalogType } from "../../shared/domain/events/catalog.ts";
import type { SubscriptionItem } from "../../shared/eventstore/subscription.ts";
import { WAITS_FOR_SANDBOX } from "../quarantine/quarantined-streams.ts";
import { ProjectionError } from "../roles/role.ts";
import type { ProjectionRun } from "./projection-options.ts";
import type { Tables } from "./rows.ts";

/**
 * Limits of the fuse, which stops the projectors if the release itself seems faulty. Events of one type must fail in
 * more than 20 streams, and in more than a tenth of the last 1,000 events of the type. The fuse counts in log order, so
 * rebuild, catch-up and live operation get the same result, also after a restart.
 */
const MAX_STREAMS = 20;
const MAX_SHARE = 0.1;
const MAX_OUTCOMES = 1_000;

/** Outcomes of the last events by event type, oldest first: `1` for a failed event, and otherwise `0`. */
export type Outcomes = ReadonlyMap<string, string>;

/**
 * Adds the outcomes of items to earlier outcomes, and checks the limits of the fuse. Later events of quarantined
 * streams do not count, because they are not processed. Streams that failed before an operator confirmed the event type
 * do not count as failed.
 *
 * @returns the changed outcomes, and an error for the first event at which a type exceeds the limits
 */
export function judgeOutcomes(
  { confirmedTypes, outcomes, quarantinedStreams }: ProjectionRun,
  items: readonly SubscriptionItem[],
) {
  const newOutcomes = new Map<string, string>();
  let blownFuse: ProjectionError | undefined;
  for (const item of items) {
    if (item.kind !== "event" && item.kind !== "unreadable") continue;
    const { stream, revision, type, position } = item.event;
    const quarantinedStream = quarantinedStreams.get(stream);
    const hasFailed = quarantinedStream !== undefined && revision >= quarantinedStream.revision;
    if (hasFailed && (revision > quarantinedStream.revision || quarantinedStream.cause === WAITS_FOR_SANDBOX)) continue;
    const earlierOutcomes = newOutcomes.get(type) ?? outcomes.get(type) ?? "";
    const typeOutcomes = (earlierOutcomes + (hasFailed ? "1" : "0")).slice(-MAX_OUTCOMES);
    // All events of an unknown type fail. Their types are not kept, because their number has no limit.
    if (isCatalogType(type)) newOutcomes.set(type, typeOutcomes);
    if (!hasFailed) continue;
    const isTooMany = [...typeOutcomes].filter((outcome) => outcome === "1").length > typeOutcomes.length * MAX_SHARE;
    if (!isTooMany || countStreams(type, position) <= MAX_STREAMS) continue;
    const reason = `${quarantinedStream.cause} (more than ${MAX_STREAMS} streams and a tenth of the events of this type fail)`;
    blownFuse = new ProjectionError(reason, item.event, undefined);
    break;
  }
  const changedOutcomes = new Map([...newOutcomes].filter(([type, value]) => value !== outcomes.get(type)));
  return { changedOutcomes, blownFuse };

  function countStreams(type: string, lastPosition: bigint): number {
    const confirmedPosition = confirmedTypes.get(type) ?? -1n;
    const isCounted = ({ eventType, cause, position }: { eventType: string; cause: string; position: bigint }) =>
      eventType === type && cause !== WAITS_FOR_SANDBOX && position > confirmedPosition && position <= lastPosition;
    return [...quarantinedStreams.values()].filter(isCounted).length;
  }
}

export async function readOutcomes(pool: Pool, schema: string): Promise<Map<string, string>> {
  const { rows } = await pool.query<{ type: string; outcomes: string }>(
    `SELECT event_type AS type, outcomes FROM ${schema}.event_outcome`,
  );
  return new Map(rows.map(({ type, outcomes }) => [type, outcomes]));
}

/** Stores changed outcomes. After 1,000 events of a type without a failure, its outcomes no longer change. */
export async function writeOutcomes({ client, schema }: Tables, changedOutcomes: Outcomes): Promise<void> {
  if (changedOutcomes.size === 0) return;
  await client.query({
    name: `outcomes ${schema}`,
    text: `INSERT INTO ${schema}.event_outcome SELECT * FROM unnest($1::text[], $2::text[])
           ON CONFLICT (event_type) DO UPDATE SET outcomes = excluded.outcomes`,
    values: [[...changedOutcomes.keys()], [...changedOutcomes.values()]],
  });
}
