import { BACKWARDS, END, type EventStoreDBClient, type ReadPosition } from "@eventstore/db-client";
import type pg from "pg";
import type { Clinic } from "../../../shared/domain/clinic/clinic.ts";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { isCatalogStream } from "../../../shared/domain/events/catalog.ts";
import { readWithin } from "../../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { isStatementTimeout } from "../../../shared/runtime/failures.ts";
import { forEachConcurrently } from "../../../shared/runtime/work.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { endsRun, isServerFailure } from "../../handling/server-failure.ts";
import {
  destroyErasedKeys,
  endErasedLinks,
  isQuarantined,
  type PersonalDataStores,
  ReadModelsBehindError,
  recordAndDestroy,
  waitForReadModels,
} from "./erase-person.ts";
import { type DuePerson, findClinicsWithRules, findDuePersons, type RetainedType } from "./find-due-persons.ts";

export interface RetentionSummary {
  /** Number of persons whose data was erased; in a dry run, whose data would be erased. */
  erased: Record<RetainedType, number>;
  refused: number;
  /**
   * Number of clinics that were skipped. Either a quarantined stream may hide a visit or rule, or the search failed.
   */
  skippedClinics: number;
  destroyedKeys: number;
  /** Number of data keys that were destroyed again, for example because a restore had brought them back. */
  keysDestroyedAgain: number;
  /** True if the run was interrupted. The next run continues. */
  isInterrupted: boolean;
}

interface RetentionOptions {
  /** Clinic whose rules are applied; all clinics if undefined. */
  clinicId: string | undefined;
  /** If true, nothing is erased. */
  isDryRun: boolean;
  signal: AbortSignal;
  /** Called in a dry run for each person whose data would be erased. */
  onDue(person: DuePerson): Promise<void>;
  onProgress(processedCount: number): void;
  /** Called for each person whose data cannot be erased. A failure of a server ends the run instead. */
  onRefusal(person: DuePerson, error: Error): void;
  onSkippedClinic(clinicId: string, error: Error): void;
}

/**
 * Applies the clinics' retention rules: erases the data of persons whose last visit is too long ago, and records each
 * erasure. Also destroys again the keys of earlier erasures, which a restore of Postgres may have brought back.
 *
 * If the run fails, completed erasures remain, and the next run continues.
 *
 * @throws {DomainError} `read_models_incomplete` if the end of the log is not found
 * @throws {ReadModelsBehindError} if the read models do not reach the end of the log in time
 * @throws the error of a server, for example {LogUnavailableError}
 */
export async function applyRetention(
  { client, ...stores }: PersonalDataStores & { client: EventStoreDBClient },
  context: CommandContext,
  options: RetentionOptions,
): Promise<RetentionSummary> {
  const { pool, log } = stores;
  const { isDryRun, signal } = options;
  const summary: RetentionSummary = {
    erased: { customer: 0, appointment: 0, queueTicket: 0 },
    ...{ refused: 0, skippedClinics: 0, destroyedKeys: 0, keysDestroyedAgain: 0, isInterrupted: false },
  };
  let lastPosition = -1n;
  let processedCount = 0;
  const erase = async (person: DuePerson, retentionMonths: Clinic["retentionMonths"]) => {
    try {
      if (await isQuarantined(pool, `${person.type}-${person.id}`))
        throw new DomainError("read_models_incomplete", "its stream is quarantined; rebuild the read models first");
      const result = await recordAndDestroy(stores, person, describeErasure(person, retentionMonths), context);
      summary.erased[person.type] += 1;
      summary.destroyedKeys += result.destroyedKeyCount;
      if (result.position !== undefined && result.position > lastPosition) lastPosition = result.position;
    } catch (error) {
      if (await endsRun(log, error)) throw error;
      summary.refused += 1;
      options.onRefusal(person, error as Error);
    }
    processedCount += 1;
    options.onProgress(processedCount);
  };
  const showDue = async (person: DuePerson) => {
    summary.erased[person.type] += 1;
    await options.onDue(person);
  };

  async function applyRules(clinicId: string): Promise<void> {
    await requireCompleteReadModels(client, pool, clinicId);
    for await (const { persons, retentionMonths } of findDuePersons(pool, clinicId, context.now)) {
      const run = isDryRun ? showDue : (person: DuePerson) => erase(person, retentionMonths);
      await forEachConcurrently(persons, run, { signal });
      if (signal.aborted) return;
      // A long run must not overlook a recent visit or rule.
      await requireCompleteReadModels(client, pool, clinicId);
    }
  }

  await waitForLogEnd(client, pool);
  if (!isDryRun) summary.keysDestroyedAgain = await destroyErasedKeys(pool);
  for (const clinicId of await findClinicsWithRules(pool, options.clinicId)) {
    if (signal.aborted) break;
    await applyRules(clinicId).catch((error: Error) => {
      // The persons of a large clinic may take too long.
      const isServerFault = isServerFailure(error) && !isStatementTimeout(error);
      if (isServerFault || error instanceof ReadModelsBehindError) throw error;
      summary.skippedClinics += 1;
      options.onSkippedClinic(clinicId, error);
    });
  }
  summary.isInterrupted = signal.aborted;
  if (isDryRun) return summary;
  await waitForReadModels(pool, lastPosition);
  summary.destroyedKeys += await destroyErasedKeys(pool);
  await endErasedLinks(stores, context);
  const isComplete = summary.refused + summary.skippedClinics === 0 && !signal.aborted;
  if (options.clinicId === undefined && isComplete)
    await pool.query("UPDATE projection.task_success SET succeeded_at = now() WHERE task = 'retention'");
  return summary;
}

function describeErasure({ categories }: DuePerson, retentionMonths: Clinic["retentionMonths"]) {
  const periods = categories.map((category) => `${category} ${retentionMonths[category]} months`);
  const reason = `Retention period after the last visit: ${periods.join(", ")}`;
  return { categories, cause: "retention" as const, reason };
}

/** Default maximum number of events that are read backwards to find the last event of this system. */
const MAX_READ_EVENTS = 100_000;

const PAGE_SIZE = 500;

const PAGE_TIMEOUT_MS = 10_000;

/** Streams with visits and retention rules. Customer streams are omitted, because each affects only one customer. */
const REQUIRED_STREAM_PATTERN = "^(appointment|queueTicket|animal|clinic)-";

/**
 * Requires that the read models contain all events of a clinic that are in the log now. Otherwise, a recent visit or a
 * longer retention period may be missing, and an erasure cannot be undone.
 *
 * @throws {ReadModelsBehindError} if the read models do not reach the end of the log in time
 * @throws {DomainError} `read_models_incomplete` if a stream of the clinic, or of an unknown clinic, is quarantined
 * @throws {LogUnavailableError}
 */
async function requireCompleteReadModels(client: EventStoreDBClient, pool: pg.Pool, clinicId: string): Promise<void> {
  await waitForLogEnd(client, pool);
  const { rows } = await pool.query<{ stream: string }>(
    `SELECT stream FROM ${READ_MODEL_SCHEMA}.quarantined_stream
      WHERE stream ~ $1 AND COALESCE(clinic_id::text, $2) = $2 AND (stream = 'clinic-' || $2 OR stream !~ '^clinic-')
      LIMIT 1`,
    [REQUIRED_STREAM_PATTERN, clinicId],
  );
  if (!rows[0]) return;
  throw new DomainError(
    "read_models_incomplete",
    `stream ${rows[0].stream} is quarantined, so the read models may lack a visit or a rule; rebuild the read models first`,
  );
}

/**
 * Waits until the read models have reached the end of the log.
 *
 * @throws {ReadModelsBehindError} if the read models do not reach it in time
 * @throws {DomainError} `read_models_incomplete` if the end of the log is not found
 * @throws {LogUnavailableError}
 */
export async function waitForLogEnd(
  client: EventStoreDBClient,
  pool: pg.Pool,
  { maxReadEvents = MAX_READ_EVENTS, pageSize = PAGE_SIZE } = {},
): Promise<void> {
  await waitForReadModels(pool, await readLastPosition(client, maxReadEvents, pageSize));
}

/**
 * Returns true for an event of the server, such as the deletion of a stream. The projectors do not receive such events.
 */
const isSystemEvent = (type: string) => type.startsWith("$");

/**
 * Reads the log position of the last event of this system. Other programs may have written later events.
 *
 * @returns -1n if the log has no event of this system
 * @throws {DomainError} `read_models_incomplete` if all of the last `maxReadEvents` events belong to other programs
 */
async function readLastPosition(client: EventStoreDBClient, maxReadEvents: number, pageSize: number): Promise<bigint> {
  let fromPosition: ReadPosition = END;
  for (let readCount = 0; readCount < maxReadEvents; ) {
    const maxCount = Math.min(pageSize, maxReadEvents - readCount);
    const page = client.readAll({ direction: BACKWARDS, fromPosition, maxCount });
    let pageCount = 0;
    for await (const { event } of readWithin(PAGE_TIMEOUT_MS, page)) {
      pageCount += 1;
      if (!event) continue;
      fromPosition = event.position;
      if (isCatalogStream(event.streamId) && !isSystemEvent(event.type)) return event.position.commit;
    }
    if (pageCount < maxCount) return -1n;
    readCount += pageCount;
  }
  const problem = `the last ${maxReadEvents} events of the log belong to other programs, so the end cannot be found`;
  throw new DomainError("read_models_incomplete", problem);
}
