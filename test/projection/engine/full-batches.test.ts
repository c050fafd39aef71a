import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { buildTablesDdl } from "../../../projection/engine/ddl.ts";
import { runProjection } from "../../../projection/engine/projection.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import {
  createEngineWorld,
  createRegisteredEvent,
  createRenamedEvent,
  type EngineWorld,
  logger,
} from "../engine-world.ts";

const EVENT_COUNT = 4_500;
const SCHEMA = `${READ_MODEL_SCHEMA}_next`;

describe("the batches of a projection run that fills unused tables", () => {
  let world: EngineWorld;

  before(async () => {
    world = await createEngineWorld();
  });

  after(() => world.close());

  it("the batches of stored events are full, and live events are written immediately", async () => {
    const customerId = randomUUID();
    const stream = `customer-${customerId}`;
    await world.append(stream, createRegisteredEvent(customerId, "0"));
    for (let firstNumber = 1; firstNumber < EVENT_COUNT; firstNumber += 500) {
      const names = Array.from(
        { length: Math.min(500, EVENT_COUNT - firstNumber) },
        (_, index) => `${firstNumber + index}`,
      );
      await world.append(stream, ...names.map((name) => createRenamedEvent(customerId, name)));
    }
    await world.pool.query(buildTablesDdl(readModels, SCHEMA));
    const batchSizes: number[] = [];
    const stopController = new AbortController();
    let appendPromise: Promise<bigint> | undefined;
    await runProjection(
      {
        ...{ client: world.client, pool: world.pool, dataKeys: world.dataKeys, models: readModels, logger },
        ...{ schema: SCHEMA, fillsUnusedTables: true },
        loadParkedStreams: async () => ({ streams: new Map(), lastRevision: -1n }),
        onBatch: (eventCount) => batchSizes.push(eventCount),
        onProgress: ({ hasCaughtUp, eventCount }) => {
          if (hasCaughtUp) appendPromise ??= world.append(stream, createRenamedEvent(customerId, "live"));
          if (eventCount > EVENT_COUNT) stopController.abort();
        },
      },
      stopController.signal,
    );
    await appendPromise;
    expect(batchSizes).to.deep.equal([2_000, 2_000, 500, 1]);
    const { rows } = await world.pool.query(`SELECT full_name FROM ${SCHEMA}.customer`);
    expect(rows).to.deep.equal([{ full_name: "live" }]);
  });
});
