import type { ClientBase, Pool } from "pg";
import { CHECKPOINT } from "./ddl.ts";

/** Where the read models of a schema stand. */
export interface Standing {
  /** The log position that they reflect. */
  position: bigint;
  /** Which tables they are: a rebuild puts others in their place, under the same names. */
  tables: string;
}

export async function readStanding(db: Pool | ClientBase, schema: string): Promise<Standing> {
  const { rows } = await db.query<Standing>(
    `SELECT position, tableoid::text AS tables FROM ${schema}.checkpoint WHERE name = $1`,
    [CHECKPOINT],
  );
  if (!rows[0]) throw new Error(`schema ${schema} has no checkpoint`);
  return rows[0];
}

/** The log position that the read models of a schema reflect. */
export async function readCheckpoint(db: Pool | ClientBase, schema: string): Promise<bigint> {
  return (await readStanding(db, schema)).position;
}
