import { randomUUID } from "node:crypto";
import type pg from "pg";
import type { DatabaseClient } from "../../shared/postgres/client.ts";
import {
  type ConnectionUse,
  createLongLivedClient,
  keepConnection,
  type LongLivedClientOptions,
  requireOwnSession,
} from "../../shared/postgres/long-lived-connection.ts";
import { createPositionListener } from "../../shared/postgres/read-model-position.ts";

/** Time without a lock after which a sender counts as gone. Long enough for a new connection after a failover. */
const MAX_LOCK_GAP_MS = 3_000;

/**
 * Database session of the webhooks role in one process. Its connection receives the position of the read models, and
 * holds an advisory lock on the process's sender id. If the process is killed, Postgres frees the lock. After three
 * seconds, another process deletes the sender, which ends the sender's leases.
 */
export class WebhooksSession {
  readonly #pool: pg.Pool;
  readonly #onSenderGone: () => void;
  readonly #onPosition: (position: bigint | undefined) => void;
  /** Times at which this process first found the lock of another sender free. */
  #gapStarts = new Map<string, number>();
  #senderId = randomUUID();
  #isOpen = false;

  /**
   * @param callbacks.onSenderGone called after the leases of another sender have ended
   * @param callbacks.onPosition called with each new position of the read models, and with undefined when the
   *   connection is lost
   */
  constructor(pool: pg.Pool, callbacks: { onSenderGone(): void; onPosition(position: bigint | undefined): void }) {
    this.#pool = pool;
    this.#onSenderGone = callbacks.onSenderGone;
    this.#onPosition = callbacks.onPosition;
  }

  /** Id for new leases. Undefined while the connection is lost: the process must then claim no delivery. */
  get senderId(): string | undefined {
    return this.#isOpen ? this.#senderId : undefined;
  }

  /** Keeps the session until the signal aborts. */
  run(options: LongLivedClientOptions, signal: AbortSignal): Promise<void> {
    const listener = createPositionListener(this.#onPosition);
    const use: ConnectionUse = {
      prepare: async (connection) => {
        // The lock on the read models requires the same, and ends the service.
        await requireOwnSession(connection, () => createLongLivedClient(options).connect()).catch(failToOpen);
        await listener.prepare(connection);
        await this.#register(connection);
        this.#isOpen = true;
      },
      check: async (connection) => {
        await listener.check(connection);
        await this.#deleteGoneSenders(connection);
      },
      onLoss: () => {
        this.#isOpen = false;
        listener.onLoss?.();
      },
      lossMessage:
        "The webhooks role has lost its session with Postgres. It claims no deliveries until it has a new one.",
    };
    return keepConnection(options, signal, use);
  }

  /**
   * Locks the id of this sender. If another connection still holds the lock, for example an earlier connection that the
   * server has not closed yet, the process gets a new id.
   */
  async #register(connection: DatabaseClient): Promise<void> {
    while (!(await tryLock(connection, this.#senderId))) this.#senderId = randomUUID();
    await this.#findUnlocked(connection);
  }

  /** Finds other senders without a lock. Also adds this sender, whose row may be missing, for example after a restore. */
  async #findUnlocked(connection: DatabaseClient): Promise<string[]> {
    const { rows } = await connection.query<{ senderId: string }>(
      `WITH own AS (INSERT INTO webhooks.sender (sender_id) VALUES ($1) ON CONFLICT DO NOTHING)
       SELECT sender_id AS "senderId" FROM webhooks.sender WHERE sender_id <> $1 AND ${IS_UNLOCKED_SQL}`,
      [this.#senderId],
    );
    return rows.map(({ senderId }) => senderId);
  }

  async #deleteGoneSenders(connection: DatabaseClient): Promise<void> {
    const senderIds = await this.#findUnlocked(connection);
    const now = performance.now();
    const gapStarts = senderIds.map((id): [string, number] => [id, this.#gapStarts.get(id) ?? now]);
    this.#gapStarts = new Map(gapStarts);
    const goneIds = gapStarts.filter(([, startedAt]) => now - startedAt >= MAX_LOCK_GAP_MS).map(([id]) => id);
    if (goneIds.length === 0) return;
    // Skips rows that somebody has locked, so that this session does not wait for them.
    const { rowCount } = await this.#pool.query(
      `DELETE FROM webhooks.sender WHERE sender_id IN (
         SELECT sender_id FROM webhooks.sender WHERE sender_id = ANY ($1) AND ${IS_UNLOCKED_SQL} FOR UPDATE SKIP LOCKED)`,
      [goneIds],
    );
    if (rowCount !== 0) this.#onSenderGone();
  }
}

function failToOpen(cause: unknown): never {
  throw new Error("The webhooks role has no session of its own.", { cause });
}

const LOCK_KEY_SQL = "hashtextextended('webhook sender ' || sender_id, 0)";

/** True if no session holds the lock of the sender. Several processes can test this at the same time. */
const IS_UNLOCKED_SQL = `pg_try_advisory_xact_lock_shared(${LOCK_KEY_SQL})`;

async function tryLock(connection: DatabaseClient, senderId: string): Promise<boolean> {
  const { rows } = await connection.query<{ held: boolean }>(
    `SELECT pg_try_advisory_lock(${LOCK_KEY_SQL}) AS held FROM (SELECT $1::uuid::text AS sender_id) sender`,
    [senderId],
  );
  return rows[0]?.held === true;
}
