import type pg from "pg";
import { StartError } from "../runtime/run-service.ts";
import { closeConnection } from "./pool.ts";

/** Number of comparisons. A single one can miss a shared session while other clients use the pooler. */
const COMPARISONS = 5;

/**
 * Requires that a connection keeps its session of the server, because the locks of the connection belong to the session.
 * Behind a connection pooler, this depends on the pooler's mode. A direct connection needs one query.
 *
 * @param connection open connection without a transaction
 * @param openOther opens another connection to the same database. Called only behind a pooler
 * @throws {StartError} if the connection shares its session with other connections
 */
export async function requireOwnSession(connection: pg.Client, openOther: () => Promise<pg.Client>): Promise<void> {
  // The types of pg do not declare the id that the server reported. A pooler reports an id that it invented.
  const { processID: reportedId } = connection as unknown as { processID: number | null };
  if ((await readSessionId(connection)) === reportedId) return;
  const other = await openOther();
  try {
    for (let comparison = 0; comparison < COMPARISONS; comparison += 1) {
      const id = await readSessionId(connection);
      const otherIds = [await readSessionId(other), await readSessionId(other)];
      if (otherIds.includes(id) || otherIds[0] !== otherIds[1] || id !== (await readSessionId(connection)))
        throw new StartError(
          "The connection pooler at DATABASE_URL uses transaction or statement mode, in which locks are lost. Use session mode, or connect to Postgres directly.",
        );
    }
  } finally {
    await closeConnection(other);
  }
}

/** Returns the process id of the session in which the server runs a query of the connection. */
async function readSessionId(connection: pg.Client): Promise<number> {
  const { rows } = await connection.query<{ id: number }>("SELECT pg_backend_pid() AS id");
  return rows[0]?.id ?? 0;
}
