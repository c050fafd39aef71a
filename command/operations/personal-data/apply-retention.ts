import type { EventStoreDBClient } from "@eventstore/db-client";
import type { Clinic } from "../../../shared/domain/clinic/clinic.ts";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { isStatementTimeout } from "../../../shared/runtime/failures.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { endsRun, isServerFailure } from "../../handling/server-failure.ts";
import { destroyErasedKeys } from "./destroy-erased-keys.ts";
import { endErasedLinks } from "./end-erased-links.ts";
import { isQuarantined, type PersonalDataStores, recordAndDestroy, waitForReadModels } from "./erase-person.ts";
import { type DuePerson, findClinicsWithRules, findDuePersons, type RetainedType } from "./find-due-persons.ts";
import { requireCompleteReadModels, waitForLogEnd } from "./require-complete-read-models.ts";

export interface RetentionSummary {
  /** Number of persons whose data was erased; in a dry run, whose data would be erased. */
  erased: Record<RetainedType, number>;
  refused: number;
  /** Number of clinics for which a quarantined stream may hide a visit or a rule, or whose persons cannot be found. */
  skippedClinics: number;
  destroyedKeys: number;
  /** Number of data keys that earlier erasures had destroyed, that existed again, and that are destroyed again. */
  keysDestroyedAgain: number;
  /** True if the run was interrupted. The next run continues. */
  isInterrupted: boolean;
}

interface RetentionOptions {
  /** Clinic whose rules are applied; all clinics if undefined. */
  clinicId: string | undefined;
  isDryRun: boolean;
  signal: AbortSignal;
  /** Called for each due person before the erasures start, also in a dry run. */
  onDue(person: DuePerson): Promise<void>;
  onProgress(processedCount: number, dueCount: number): void;
  /** Called for each person whose data cannot be erased, unless a server fails. A server's failure ends the run. */
  onRefusal(person: DuePerson, error: Error): void;
  onSkippedClinic(clinicId: string, error: Error): void;
}

const MAX_CONCURRENT_ERASURES = 8;

/**
 * Applies the clinics' retention rules: erases the data of persons whose last visit is too long ago, and records each
 * erasure. Also destroys again the keys of earlier erasures, which a restore of Postgres may have brought back.
 *
 * @throws {DomainError} `read_models_incomplete` if the end of the log is not found
 * @throws {ReadModelsBehindError} or the failure of a server; the erasures up to now are kept, and the next run continues
 */
export async function applyRetention(
  { client, ...stores }: PersonalDataStores & { client: EventStoreDBClient },
  context: CommandContext,
  options: RetentionOptions,
): Promise<RetentionSummary> {
  const { pool } = stores;
  const summary: RetentionSummary = {
    erased: { customer: 0, appointment: 0, queueTicket: 0 },
    refused: 0,
    skippedClinics: 0,
    destroyedKeys: 0,
    keysDestroyedAgain: 0,
    isInterrupted: false,
  };
  const skippedClinicIds = new Set<string>();
  const skip = (clinicId: string, error: Error) => {
    if (!skippedClinicIds.has(clinicId)) options.onSkippedClinic(clinicId, error);
    skippedClinicIds.add(clinicId);
  };
  const isComplete = async (clinicId: string) => {
    try {
      await requireCompleteReadModels(client, pool, clinicId);
      return true;
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      skip(clinicId, error);
      return false;
    }
  };
  async function* findPersons(clinicId: string) {
    if (!(await isComplete(clinicId))) return;
    try {
      yield* findDuePersons(pool, clinicId, context.now);
    } catch (error) {
      // The persons of a large clinic may take too long.
      if (isServerFailure(error) && !isStatementTimeout(error)) throw error;
      skip(clinicId, error as Error);
    }
  }
  await waitForLogEnd(client, pool);
  const clinicIds = await findClinicsWithRules(pool, options.clinicId);
  if (options.isDryRun) {
    await countDuePersons(findPersons, clinicIds, options, (person) => {
      summary.erased[person.type] += 1;
    });
  } else {
    summary.keysDestroyedAgain = await destroyErasedKeys(pool);
    const dueCount = await countDuePersons(findPersons, clinicIds, options);
    await eraseDuePersons({ ...stores, isComplete, findPersons }, clinicIds, context, options, summary, dueCount);
    summary.destroyedKeys += await destroyErasedKeys(pool);
    await endErasedLinks(stores, context);
    const hasFailure = summary.refused > 0 || skippedClinicIds.size > 0 || options.signal.aborted;
    if (options.clinicId === undefined && !hasFailure)
      await pool.query("UPDATE projection.task_success SET succeeded_at = now() WHERE task = 'retention'");
  }
  return { ...summary, skippedClinics: skippedClinicIds.size, isInterrupted: options.signal.aborted };
}

/** Finds the due persons of a clinic, like {@link findDuePersons}. If they cannot be found, skips the clinic. */
type FindPersons = (clinicId: string) => ReturnType<typeof findDuePersons>;

interface PersonSearch {
  /** @returns false if a quarantined stream may hide a visit or a rule of the clinic */
  isComplete(clinicId: string): Promise<boolean>;
  findPersons: FindPersons;
}

async function countDuePersons(
  findPersons: FindPersons,
  clinicIds: readonly string[],
  { signal, onDue }: RetentionOptions,
  onCounted?: (person: DuePerson) => void,
): Promise<number> {
  let dueCount = 0;
  for (const clinicId of clinicIds) {
    for await (const { persons } of findPersons(clinicId)) {
      if (signal.aborted) return dueCount;
      dueCount += persons.length;
      for (const person of persons) {
        onCounted?.(person);
        await onDue(person);
      }
    }
  }
  return dueCount;
}

/**
 * Erases all due persons, and waits until the read models show the erasures. Before it finds each page of persons, it
 * checks again that the read models are complete, because a long run must not overlook a recent visit or rule.
 */
async function eraseDuePersons(
  { isComplete, findPersons, ...stores }: PersonalDataStores & PersonSearch,
  clinicIds: readonly string[],
  context: CommandContext,
  { signal, onProgress, onRefusal }: RetentionOptions,
  summary: RetentionSummary,
  dueCount: number,
): Promise<void> {
  let lastPosition = -1n;
  let processedCount = 0;
  const erase = async (person: DuePerson, retentionMonths: Clinic["retentionMonths"]) => {
    try {
      if (await isQuarantined(stores.pool, `${person.type}-${person.id}`))
        throw new DomainError("read_models_incomplete", "its stream is quarantined; rebuild the read models first");
      const result = await recordAndDestroy(stores, person, describeErasure(person, retentionMonths), context);
      summary.erased[person.type] += 1;
      summary.destroyedKeys += result.destroyedKeyCount;
      if (result.position !== undefined && result.position > lastPosition) lastPosition = result.position;
    } catch (error) {
      if (await endsRun(stores.log, error)) throw error;
      summary.refused += 1;
      onRefusal(person, error as Error);
    }
    processedCount += 1;
    onProgress(processedCount, dueCount);
  };
  for (const clinicId of clinicIds) {
    for await (const { persons, retentionMonths } of findPersons(clinicId)) {
      await forEachConcurrently(persons, signal, (person) => erase(person, retentionMonths));
      if (signal.aborted || !(await isComplete(clinicId))) break;
    }
    if (signal.aborted) break;
  }
  await waitForReadModels(stores.pool, lastPosition);
}

function describeErasure({ categories }: DuePerson, retentionMonths: Clinic["retentionMonths"]) {
  const periods = categories.map((category) => `${category} ${retentionMonths[category]} months`);
  const reason = `Retention period after the last visit: ${periods.join(", ")}`;
  return { categories, cause: "retention" as const, reason };
}

/** Runs a task for each item, up to 8 at a time. After an error or an abort, no further task starts. */
async function forEachConcurrently<Item>(
  items: readonly Item[],
  signal: AbortSignal,
  run: (item: Item) => Promise<void>,
): Promise<void> {
  for (let index = 0; index < items.length && !signal.aborted; index += MAX_CONCURRENT_ERASURES) {
    const results = await Promise.allSettled(items.slice(index, index + MAX_CONCURRENT_ERASURES).map(run));
    for (const result of results) if (result.status === "rejected") throw result.reason;
  }
}
