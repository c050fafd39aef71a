import { expect } from "chai";
import { pino } from "pino";
import { createReadModelWaiter } from "../../../command/partner-api/expose-log-position.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createPositionWatch, readPosition } from "../../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createReadModelDatabase } from "../../support/read-models.ts";
import { releaseLater, useResource } from "../../support/resources.ts";

const logger = pino({ enabled: false });

describe("waiting for the read models before a response", () => {
  const database = useResource(createReadModelDatabase);

  function createWait(url = database.urls.command) {
    const warnings: unknown[] = [];
    const pool = createPool({ url, applicationName: "test", size: 2, statementTimeoutMs: 1_000, logger });
    releaseLater(() => pool.end());
    const watch = createPositionWatch(() => readPosition(pool));
    const warn = (...args: unknown[]) => void warnings.push(args);
    return { warnings, wait: createReadModelWaiter(watch, Object.assign(Object.create(logger), { warn })) };
  }
  const readCurrentPosition = async () =>
    BigInt((await database.admin.query(`SELECT position FROM ${READ_MODEL_SCHEMA}.checkpoint`)).rows[0].position);
  const measureMs = async (waitPromise: Promise<void>) => {
    const startedAtMs = performance.now();
    await waitPromise;
    return performance.now() - startedAtMs;
  };

  it("the response to a write waits until the read models have reached the log position of the write", async () => {
    const { wait, warnings } = createWait();
    await wait(await readCurrentPosition()); // opens the connection
    let isAdvancing = false;
    const wasAdvancingPromise = wait((await readCurrentPosition()) + 1n).then(() => isAdvancing);
    for (let count = 0; count < 20; count += 1) await readCurrentPosition(); // a wait that ends too early ends meanwhile
    isAdvancing = true;
    // A projector would take longer, on a busy machine longer than the response waits.
    await database.admin.query(`UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = position + 1`);
    expect(await wasAdvancingPromise).to.equal(true);
    expect(warnings).to.deep.equal([]);
  });

  it("if the read models are behind, the first response waits one second, and later responses do not wait", async () => {
    const { wait, warnings } = createWait();
    await wait(await readCurrentPosition());
    const farPosition = (await readCurrentPosition()) + 1_000n;
    expect(await measureMs(wait(farPosition))).to.be.at.least(900);
    const laterDurationsMs: number[] = [];
    for (let count = 0; count < 20; count += 1) laterDurationsMs.push(await measureMs(wait(farPosition)));
    // On a busy machine, some take long. If they waited, each would take a second.
    expect(Math.min(...laterDurationsMs)).to.be.below(500);
    expect(warnings).to.have.length(1);
  });

  it("a response does not wait for the read models if the database is unavailable", async () => {
    const durationsMs: number[] = [];
    for (let count = 1; count <= 5; count += 1) {
      const { wait, warnings } = createWait("postgres://nobody:nothing@127.0.0.1:9/clinic");
      durationsMs.push(await measureMs(wait(1n)));
      expect(warnings).to.have.length(1);
    }
    expect(Math.min(...durationsMs)).to.be.below(500);
  });
});
