import type pg from "pg";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { buildReadModelDdl } from "./ddl.ts";
import type { AnyReadModel } from "./read-model.ts";

/**
 * Creates the read models if the database has none. Leaves read models of another release unchanged: the projectors
 * stand by until a rebuild. If several processes start at the same time, a lock makes them run one after another.
 */
export async function ensureReadModels(pool: pg.Pool, models: readonly AnyReadModel[]): Promise<void> {
  await pool.query(
    `DO $$ BEGIN
       PERFORM pg_advisory_xact_lock(hashtextextended('read model schema', 0));
       IF to_regclass('${READ_MODEL_SCHEMA}.checkpoint') IS NULL THEN
         ${buildReadModelDdl(models)}
       END IF;
     END $$`,
  );
}
