import type pg from "pg";
import type { Erasure } from "../../../shared/domain/personal-data/erasure.ts";
import type { PersonType } from "../../../shared/domain/personal-data/person.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { concernsOneStream } from "../../../shared/eventstore/stream-failure.ts";
import { destroyKeys, destroyKeysOf } from "../../../shared/personal-data/data-key-store.ts";
import { createPositionWatch, readPosition } from "../../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { withdrawLink } from "../animal-link-operations.ts";
import { recordErasure } from "./record-erasure.ts";

/** Stores that hold personal data. The user of the database must own the read models. */
export interface PersonalDataStores {
  log: EventLog;
  pool: pg.Pool;
}

interface ErasablePerson {
  type: PersonType;
  id: string;
  /** Absent for a person who belongs to no clinic. */
  clinicId?: string;
}

export interface ErasureResult {
  isRecorded: boolean;
  destroyedKeyCount: number;
  /** Log position that the read models must reach to show the erasure; undefined if the stream is empty. */
  position: bigint | undefined;
}

export class ReadModelsBehindError extends Error {
  override readonly name = "ReadModelsBehindError";
}

const READ_MODELS_TIMEOUT_MS = 60_000;

/**
 * Erases a person's data: records the erasure, destroys the data keys, and waits until the read models show neutral
 * values. Then notifies the applications that are linked to the person's animals. To complete an interrupted erasure,
 * repeat it.
 *
 * @throws {DomainError} `<object>_not_found` if there is no such person, or `auditor_not_revoked`
 * @throws {ReadModelsBehindError} if the erasure is recorded and the keys are destroyed, but the read models are
 *   behind, or skip the person's stream because it is quarantined
 */
export async function erasePerson(
  stores: PersonalDataStores,
  person: ErasablePerson,
  erasure: Erasure,
  context: CommandContext,
): Promise<ErasureResult> {
  // If the database is unavailable or its user has too few rights, nothing is recorded.
  let destroyedKeyCount = await destroyErasedKeys(stores.pool, person.id);
  const result = await recordAndDestroy(stores, person, erasure, context);
  if (result.position !== undefined) await waitForReadModels(stores.pool, result.position);
  await requireResumedStream(stores.pool, `${person.type}-${person.id}`);
  destroyedKeyCount += result.destroyedKeyCount + (await destroyErasedKeys(stores.pool, person.id));
  if (person.type === "customer") await endErasedLinks(stores, context, person.id);
  return { ...result, destroyedKeyCount };
}

/**
 * Records an erasure and destroys the keys of the person. Does not wait for the read models. The time of the event is
 * Postgres's time, because it is compared with the times at which data keys were created.
 */
export async function recordAndDestroy(
  { log, pool }: PersonalDataStores,
  person: ErasablePerson,
  erasure: Erasure,
  context: CommandContext,
): Promise<ErasureResult> {
  const { type, id, clinicId } = person;
  const erasureContext = { ...context, now: await readDatabaseTime(pool) };
  const act = { id, ...(clinicId !== undefined && { clinicId }), ...erasure };
  const { events, statePosition: position } = await recordErasure[type](log, act, erasureContext);
  const destroyedKeyCount = await destroyKeysOf(pool, { type, id }, erasure.categories);
  return { isRecorded: events.length > 0, destroyedKeyCount, position };
}

async function readDatabaseTime(pool: pg.Pool): Promise<number> {
  const statement = "SELECT ceil(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now";
  return (await pool.query<{ now: number }>(statement)).rows[0]?.now ?? Number.NaN;
}

export async function isQuarantined(pool: pg.Pool, stream: string): Promise<boolean> {
  const statement = `SELECT FROM ${READ_MODEL_SCHEMA}.quarantined_stream WHERE stream = $1`;
  return (await pool.query(statement, [stream])).rowCount === 1;
}

/** @throws {ReadModelsBehindError} if the stream is quarantined, so the read models still contain the person's data */
async function requireResumedStream(pool: pg.Pool, stream: string): Promise<void> {
  if (!(await isQuarantined(pool, stream))) return;
  throw new ReadModelsBehindError(
    `the data keys are destroyed, but stream ${stream} is quarantined, so the read models still contain the data; rebuild the read models`,
  );
}

/**
 * Waits up to 60 s until the read models reach a log position.
 *
 * @throws {ReadModelsBehindError} if they do not reach it in time
 */
export async function waitForReadModels(pool: pg.Pool, position: bigint): Promise<void> {
  if (await createPositionWatch(() => readPosition(pool)).wait(position, READ_MODELS_TIMEOUT_MS)) return;
  throw new ReadModelsBehindError(
    `the read models have not reached log position ${position}; check the projection service and run the command again`,
  );
}

const MAX_KEYS = 1_000;

/** SQL expression: time when the erasure `e` last erased the category of the key `k`. */
const CATEGORY_ERASED_AT =
  "CASE k.category WHEN 'contact' THEN e.contact_erased_at WHEN 'animal' THEN e.animal_erased_at ELSE e.notes_erased_at END";

/**
 * SQL condition for keys `k` whose data an erasure `e` has erased. If no new data of the category can be recorded, all
 * keys match. Otherwise only keys from before the erasure match, because a later key protects new data.
 */
const IS_ERASED_KEY = `(e.final_categories ? k.category OR k.created_at < ${CATEGORY_ERASED_AT})`;

/** Selects keys that still exist, although the read models show the erasure of their data. */
const ERASED_KEYS_SQL = `
  SELECT k.id FROM ${READ_MODEL_SCHEMA}.erasure e
    JOIN data_keys.data_key k ON k.person_type = e.person_type AND k.person_id = e.person_id
   WHERE k.destroyed_at IS NULL AND ($1::uuid IS NULL OR e.person_id = $1) AND ${IS_ERASED_KEY}
  LIMIT ${MAX_KEYS}`;

/**
 * Destroys data keys that still exist although their data was erased. A restore of Postgres can bring back keys, and an
 * interrupted erasure can leave keys.
 *
 * @param personId person whose keys are destroyed; all persons if undefined
 * @returns the number of destroyed keys
 */
export async function destroyErasedKeys(pool: pg.Pool, personId?: string): Promise<number> {
  let destroyedCount = 0;
  for (;;) {
    const { rows } = await pool.query<{ id: string }>(ERASED_KEYS_SQL, [personId ?? null]);
    destroyedCount += await destroyKeys(
      pool,
      rows.map(({ id }) => id),
    );
    if (rows.length < MAX_KEYS) return destroyedCount;
  }
}

const MAX_LINKS = 1_000;

const ERASED_LINKS_SQL = `
  SELECT l.animal_id AS "animalId", l.application_id AS "applicationId", l.clinic_id AS "clinicId"
    FROM ${READ_MODEL_SCHEMA}.animal_link l
    JOIN ${READ_MODEL_SCHEMA}.erasure e ON e.person_type = 'customer' AND e.person_id = l.customer_id
   WHERE e.contact_erased_at IS NOT NULL AND ($1::uuid IS NULL OR l.customer_id = $1)
   LIMIT ${MAX_LINKS}`;

/**
 * Withdraws up to 1,000 links of erased owners, so that the applications are informed. The erasure itself has already
 * ended the links. A link whose stream cannot be read is skipped.
 *
 * @param customerId owner of the links; all owners if undefined
 */
export async function endErasedLinks(
  { log, pool }: PersonalDataStores,
  context: CommandContext,
  customerId?: string,
): Promise<void> {
  const { rows } = await pool.query<{ animalId: string; applicationId: string; clinicId: string }>(ERASED_LINKS_SQL, [
    customerId ?? null,
  ]);
  for (const link of rows)
    await withdrawLink(log, { ...link, requestedBy: "clinic" }, context).catch(async (error: unknown) => {
      if (!(await concernsOneStream(log, error))) throw error;
    });
}
