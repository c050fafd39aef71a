import type { CatalogEventType } from "../../shared/domain/events/catalog.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { classify } from "../../shared/runtime/failures.ts";
import { getSafeMessage } from "../../shared/runtime/logger.ts";
import type { EventCheckpoint } from "../checkpoints/checkpoint.ts";
import { recordFailedReplay, WAITS_FOR_SANDBOX } from "../quarantine/quarantined-streams.ts";
import { LeadershipLostError, ProjectionError } from "../roles/role.ts";
import { applyBatch } from "./apply-batch.ts";
import type { ProjectionRun } from "./projection-options.ts";
import { decryptBatch, waitsForSandbox, withConnection } from "./write-items.ts";

/**
 * SQL for the streams whose rows an event of another stream also changes, by the event's type. `$1` is the id of that
 * other stream. These rows may already contain later events, so the streams are replayed, too.
 */
const DEPENDENT_STREAMS_SQL: Partial<Record<CatalogEventType, (schema: string) => string>> = {
  CustomerDataErased: (schema) => `
    SELECT 'animal-' || animal_id AS stream FROM ${schema}.animal WHERE customer_id = $1::uuid
    UNION SELECT 'appointment-' || appointment_id FROM ${schema}.appointment WHERE customer_id = $1::uuid
    UNION SELECT 'queueTicket-' || ticket_id FROM ${schema}.queue_ticket WHERE customer_id = $1::uuid`,
  ResourceAdded: (schema) => `
    SELECT DISTINCT 'appointment-' || appointment_id AS stream FROM ${schema}.assignment WHERE resource_id = $1::uuid`,
};

const MAX_DEPENDENT_STREAMS = 1_000;

/** Cause of a quarantine that only a decision of an operator ends, because a replay delays all later events. */
export const REPLAY_TIMED_OUT = "the replay takes longer than the time limit of a statement in the database";

/**
 * Replays quarantined streams, each in its own transaction, up to the checkpoint. If this release can process all
 * events of a stream, the transaction also ends the quarantine. Otherwise, the stream stays quarantined, and its record
 * names the new cause. Never throws because of a single stream.
 *
 * @param streams names of the streams, in the order of their first skipped events
 * @param decisionRevision revision of the operators' last decision, which the record of a failure contains
 * @returns false if a server was unavailable, so that streams must be replayed again
 * @throws {LeadershipLostError}
 */
export async function replayStreams(
  projectionRun: ProjectionRun,
  streams: readonly string[],
  decisionRevision: bigint,
): Promise<boolean> {
  const { options, quarantinedStreams, signal } = projectionRun;
  const { pool, schema, logger } = options;
  let isComplete = true;
  for (const stream of streams) {
    if (signal.aborted) return false;
    try {
      await replayStream(projectionRun, stream);
      quarantinedStreams.delete(stream);
      logger.info({ stream }, "A quarantined stream was replayed.");
    } catch (error) {
      if (error instanceof LeadershipLostError) throw error;
      const kind = classify(error);
      if (kind === "server") {
        logger.warn({ error, stream }, "A quarantined stream is replayed later.");
        isComplete = false;
        continue;
      }
      const reason = error instanceof ProjectionError ? error.reason : getSafeMessage(error as Error);
      const cause = kind === "slow" ? REPLAY_TIMED_OUT : reason;
      await recordFailedReplay(pool, schema, stream, cause, decisionRevision);
      logger.warn({ stream, cause }, "A quarantined stream cannot be replayed.");
    }
  }
  return isComplete;
}

async function replayStream(projectionRun: ProjectionRun, stream: string): Promise<void> {
  const { options, checkpoint, quarantinedStreams } = projectionRun;
  const { pool, schema, models, dataKeys } = options;
  const hasMissingRow = models.some(
    ({ revokingStreams }) => revokingStreams && stream.startsWith(toStreamName(revokingStreams, "")),
  );
  const firstRevision = hasMissingRow ? 0n : (quarantinedStreams.get(stream)?.revision ?? 0n);
  const skippedEvents = (await readUpToCheckpoint(projectionRun, stream)).filter(
    ({ revision }) => revision >= firstRevision,
  );
  const waitingEvent = skippedEvents.find((event) => waitsForSandbox(event, quarantinedStreams));
  if (waitingEvent) throw new ProjectionError(WAITS_FOR_SANDBOX, waitingEvent, undefined);
  const events = [...skippedEvents];
  for (const dependentStream of await findDependentStreams(projectionRun, stream, skippedEvents)) {
    const lastRevision = quarantinedStreams.get(dependentStream)?.revision;
    const dependentEvents = await readUpToCheckpoint(projectionRun, dependentStream);
    events.push(...dependentEvents.filter(({ revision }) => lastRevision === undefined || revision < lastRevision));
  }
  events.sort((a, b) => (a.position < b.position ? -1 : 1));
  const { position, tableOid } = checkpoint;
  const decryptedEventsPromise = decryptBatch(events, dataKeys);
  decryptedEventsPromise.catch(() => undefined); // `applyBatch` handles the error
  await withConnection(pool, (connection) =>
    applyBatch(connection, schema, models, events, position, checkpoint as EventCheckpoint, {
      decryptedEventsPromise,
      tableOid,
      replayedStream: stream,
    }),
  );
}

async function readUpToCheckpoint(
  { options: { client }, checkpoint }: ProjectionRun,
  stream: string,
): Promise<RecordedEvent[]> {
  const events = await createEventLog(client).read(stream);
  return events.filter(({ position }) => position <= checkpoint.position);
}

/** @throws {ProjectionError} if only a rebuild can include the events */
async function findDependentStreams(
  { options: { pool, schema } }: ProjectionRun,
  stream: string,
  skippedEvents: readonly RecordedEvent[],
): Promise<string[]> {
  const streams = new Set<string>();
  for (const event of skippedEvents) {
    const sql = DEPENDENT_STREAMS_SQL[event.type]?.(schema);
    if (sql) {
      const id = stream.slice(stream.indexOf("-") + 1);
      for (const row of (await pool.query<{ stream: string }>(sql, [id])).rows) streams.add(row.stream);
    }
    if (streams.size > MAX_DEPENDENT_STREAMS)
      throw new ProjectionError(
        `${event.type} changes too many rows of other streams; run \`rebuild\``,
        event,
        undefined,
      );
  }
  return [...streams];
}
