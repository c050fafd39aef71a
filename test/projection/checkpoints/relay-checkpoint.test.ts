import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Checkpoint } from "../../../projection/checkpoints/checkpoint.ts";
import {
  CheckpointLostError,
  moveRelayCheckpoint,
  readRelayCheckpoint,
} from "../../../projection/checkpoints/relay-checkpoint.ts";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/read-log.ts";
import { useMigratedDatabase } from "../../support/migrated-database.ts";

describe("the relay's checkpoint", () => {
  const database = useMigratedDatabase();

  it("the relay's checkpoint moves to log positions beyond 2 GiB and beyond 4 GiB", async () => {
    const startCheckpoint = { position: BEFORE_FIRST_EVENT, eventId: null };
    const checkpoints = [2n ** 31n, 2n ** 32n, 2n ** 62n].map((position) => ({
      position,
      eventId: randomUUID(),
    }));
    let checkpoint: Checkpoint = startCheckpoint;
    for (const newCheckpoint of checkpoints) {
      await moveRelayCheckpoint(database.pool, checkpoint, newCheckpoint);
      checkpoint = await readRelayCheckpoint(database.pool);
      expect(checkpoint).to.deep.equal(newCheckpoint);
    }
    const lateError = await moveRelayCheckpoint(database.pool, startCheckpoint, checkpoints[0]!).catch(
      (error: unknown) => error,
    );
    expect(lateError).to.be.instanceOf(CheckpointLostError);
  });
});
