import type pg from "pg";
import type { Erasure } from "../../../shared/domain/personal-data/erasure.ts";
import type { PersonType } from "../../../shared/domain/personal-data/person.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { destroyKeysOf } from "../../../shared/personal-data/data-key-store.ts";
import { createPositionWatch, readPosition } from "../../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { destroyErasedKeys } from "./destroy-erased-keys.ts";
import { endErasedLinks } from "./end-erased-links.ts";
import { recordErasure, recordErasureWithoutClinic, type TypeWithoutClinic } from "./record-erasure.ts";

/** Stores that hold personal data. The user of the database must own the read models. */
export interface PersonalDataStores {
  log: EventLog;
  pool: pg.Pool;
}

type ErasablePerson =
  | { type: Exclude<PersonType, TypeWithoutClinic>; id: string; clinicId: string }
  | { type: TypeWithoutClinic; id: string };

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
 * Erases a person's data: records the act, destroys the data keys, waits until the read models show neutral values, and
 * informs applications with a link to the person's animals.
 * An interrupted erasure is completed by repeating it.
 *
 * @throws {DomainError} `<object>_not_found` if there is no such person, or `auditor_not_revoked`
 * @throws {ReadModelsBehindError} if the act is recorded and the keys are destroyed, but the read models are behind, or
 *   skip the person's stream because it is quarantined
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
  const { type, id } = person;
  const erasureContext = { ...context, now: await readDatabaseTime(pool) };
  const { events, statePosition: position } =
    "clinicId" in person
      ? await recordErasure[person.type](log, { id, clinicId: person.clinicId, ...erasure }, erasureContext)
      : await recordErasureWithoutClinic[person.type](log, { id, ...erasure }, erasureContext);
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

/** Requires that the projectors do not skip a stream. @throws {ReadModelsBehindError} */
async function requireResumedStream(pool: pg.Pool, stream: string): Promise<void> {
  if (!(await isQuarantined(pool, stream))) return;
  throw new ReadModelsBehindError(
    `the data keys are destroyed, but stream ${stream} is quarantined, so the read models still contain the data; rebuild the read models`,
  );
}

/** Waits until the read models reach a log position. @throws {ReadModelsBehindError} */
export async function waitForReadModels(pool: pg.Pool, position: bigint): Promise<void> {
  if (await createPositionWatch(() => readPosition(pool)).wait(position, READ_MODELS_TIMEOUT_MS)) return;
  throw new ReadModelsBehindError(
    `the read models have not reached log position ${position}; check the projection service and run the command again`,
  );
}
