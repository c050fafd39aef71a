import type pg from "pg";
import type { ServerKind } from "./connection-string.ts";

/** Thrown if a server is not of the kind that `target_session_attrs` requires. */
export class UnsuitableServerError extends Error {
  override readonly name = "UnsuitableServerError";
}

interface ServerState {
  isStandby: boolean;
  isReadOnly: boolean;
}

/** For each kind of server, returns why a server is not of this kind, or null if it is. */
const MISMATCHES: Record<ServerKind, (state: ServerState) => string | null> = {
  any: () => null,
  "prefer-standby": () => null,
  "read-write": ({ isReadOnly }) => (isReadOnly ? "the server is read-only" : null),
  "read-only": ({ isReadOnly }) => (isReadOnly ? null : "the server accepts writes"),
  primary: ({ isStandby }) => (isStandby ? "the server is a standby" : null),
  standby: ({ isStandby }) => (isStandby ? null : "the server is a primary"),
};

/**
 * Checks with one query that a connected client's server is of the required kind.
 *
 * @throws {UnsuitableServerError} if the server is of another kind
 * @throws the error of the query
 */
export async function requireServerKind(client: pg.Client, kind: ServerKind): Promise<void> {
  const { rows } = await client.query<ServerState>(
    `SELECT pg_is_in_recovery() AS "isStandby", current_setting('transaction_read_only') = 'on' AS "isReadOnly"`,
  );
  const mismatch = rows[0] && MISMATCHES[kind](rows[0]);
  if (mismatch) throw new UnsuitableServerError(mismatch);
}
