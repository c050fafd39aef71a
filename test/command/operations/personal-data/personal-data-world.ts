import { randomUUID } from "node:crypto";
import { requestAppointment } from "../../../../command/operations/appointment-operations.ts";
import { registerAnimal, registerCustomer } from "../../../../command/operations/customer-operations.ts";
import type { PersonType } from "../../../../shared/domain/personal-data/person.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { createEngineWorld, type EngineWorld } from "../../../projection/engine-world.ts";
import { PERSONAL_DATA_KEYS } from "../../../support/data-keys.ts";
import { createTestOperatorContext, type TestClinic } from "../../../support/partner.ts";
import { runClinic } from "../../cli/terminal.ts";

export const YEAR_MS = 365 * 86_400_000;

/** A separate log and database with running projectors, so that tests can erase data and read whole logs. */
export interface PersonalDataWorld extends EngineWorld {
  env: Record<string, string>;
  run(...args: string[]): ReturnType<typeof runClinic>;
  eraseCustomer(id: string, clinicId: string, ...options: string[]): ReturnType<typeof runClinic>;
  /** Counts a person's data keys, without destroyed keys. */
  countKeys(type: PersonType, id: string): Promise<number>;
  /**
   * Inserts a data key for the category `notes`, as another process or a restore of a backup does.
   *
   * @param createdAtSql creation time as an SQL expression
   */
  insertKey(type: PersonType, id: string, createdAtSql: string): Promise<unknown>;
  /** Marks a stream as quarantined while `run` is in progress. */
  whileQuarantined<Result>(stream: string, run: () => Promise<Result>, clinicId?: string | null): Promise<Result>;
  /** Requests an appointment with notes. @param now time of the request, milliseconds @returns the appointment's id */
  requestVisit(clinic: TestClinic, now: number, animalId: string | null): Promise<string>;
  /** Registers a customer with one animal that had one visit some years ago. @returns the customer's id */
  createCustomer(clinic: TestClinic, yearsSinceVisit: number): Promise<string>;
}

export async function createPersonalDataWorld(): Promise<PersonalDataWorld> {
  const world = await createEngineWorld();
  const { log, pool } = world;
  world.startProjectors();
  const env = { EVENTSTORE_URL: world.eventstoreUrl, DATABASE_URL: world.databaseUrl, PERSONAL_DATA_KEYS };
  const run = (...args: string[]) => runClinic(args, { env });

  async function requestVisit({ clinicId, branchId }: TestClinic, now: number, animalId: string | null) {
    const appointmentId = randomUUID();
    const scheduledAt = new Date(now + 60_000).toISOString();
    const visit = { appointmentId, clinicId, branchId, animalId, scheduledAt, durationMinutes: 30 };
    await requestAppointment(log, { ...visit, reason: "Limps", notes: "Bites" }, createTestOperatorContext(now));
    return appointmentId;
  }

  return {
    ...world,
    env,
    run,
    requestVisit,
    eraseCustomer: (id, clinicId, ...options) =>
      run("customer", "erase", "--customer", id, "--clinic", clinicId, "--reason", "Request 17", ...options),
    countKeys: async (type, id) =>
      (await world.dataKeys.listOf({ type, id })).filter(({ destroyedAt }) => destroyedAt === null).length,
    insertKey: (type, id, createdAtSql) =>
      pool.query(
        `INSERT INTO data_keys.data_key (id, person_type, person_id, category, wrapped_key, master_key_id, created_at)
         VALUES (gen_random_uuid(), $1, $2, 'notes', '\\x00', 'test', ${createdAtSql})`,
        [type, id],
      ),
    async whileQuarantined(stream, runWhileQuarantined, clinicId = null) {
      await pool.query(
        `INSERT INTO ${READ_MODEL_SCHEMA}.quarantined_stream VALUES ($1, 0, 0, 'T', 'cause', $2, now(), 1)`,
        [stream, clinicId],
      );
      return runWhileQuarantined().finally(() => pool.query(`DELETE FROM ${READ_MODEL_SCHEMA}.quarantined_stream`));
    },
    async createCustomer(clinic, yearsSinceVisit) {
      const { clinicId } = clinic;
      const [customerId, animalId] = [randomUUID(), randomUUID()];
      const context = createTestOperatorContext(Date.now() - 10 * YEAR_MS);
      const contact = { fullName: "Ben Ek", phone: null, email: null, city: null };
      await registerCustomer(log, { customerId, clinicId, ...contact }, context);
      const animal = { name: "Luna", species: "cat", breed: null, sex: null, birthDate: null, microchip: null };
      await registerAnimal(log, { animalId, clinicId, customerId, ...animal, weightKg: null }, context);
      await requestVisit(clinic, Date.now() - yearsSinceVisit * YEAR_MS, animalId);
      return customerId;
    },
  };
}
