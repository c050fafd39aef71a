import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import type { Checkpoint } from "../../../projection/checkpoints/checkpoint.ts";
import {
  CheckpointLostError,
  moveRelayCheckpoint,
  readRelayCheckpoint,
} from "../../../projection/checkpoints/relay-checkpoint.ts";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/log-end.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { createMigratedDatabase } from "../../support/migrated-database.ts";
import type { TestDatabase } from "../../support/stack.ts";

describe("the relay's checkpoint", () => {
  let database: TestDatabase;
  let pool: pg.Pool;

  before(async () => {
    database = await createMigratedDatabase();
    const logger = createLogger("test", "silent");
    const url = database.urls.projection;
    pool = createPool({ url, applicationName: "test", size: 1, statementTimeoutMs: 5_000, logger });
  });
  after(async () => {
    await pool.end();
    await database.drop();
  });

  it("the relay's checkpoint moves to log positions beyond 2 GiB and beyond 4 GiB", async () => {
    const startCheckpoint = { position: BEFORE_FIRST_EVENT, eventId: null };
    const checkpoints = [2n ** 31n, 2n ** 32n, 2n ** 62n].map((position) => ({
      position,
      eventId: randomUUID(),
    }));
    let checkpoint: Checkpoint = startCheckpoint;
    for (const newCheckpoint of checkpoints) {
      await moveRelayCheckpoint(pool, checkpoint, newCheckpoint);
      checkpoint = await readRelayCheckpoint(pool);
      expect(checkpoint).to.deep.equal(newCheckpoint);
    }
    const lateError = await moveRelayCheckpoint(pool, startCheckpoint, checkpoints[0]!).catch(
      (error: unknown) => error,
    );
    expect(lateError).to.be.instanceOf(CheckpointLostError);
  });
});
