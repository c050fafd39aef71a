import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { pino } from "pino";
import { createPositionWatch, listenForPositions } from "../../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { clinicRegistered } from "../../support/clinics.ts";
import { eventually } from "../../support/eventually.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { createReadModelDatabase } from "../../support/read-models.ts";
import { useResource } from "../../support/resources.ts";

describe("position watch", () => {
  it("concurrent waits share one read of the checkpoint, and each wait ends when the awaited position is reached", async () => {
    let readCount = 0;
    let resolveRead: (position: bigint) => void = () => undefined;
    const watch = createPositionWatch(() => {
      readCount += 1;
      return new Promise((resolve) => {
        resolveRead = resolve;
      });
    });
    const [firstWaitPromise, secondWaitPromise] = [watch.wait(1n, 10_000), watch.wait(2n, 10_000)];
    expect(readCount).to.equal(1);
    resolveRead(1n);
    expect(await firstWaitPromise).to.equal(true);
    // The second wait reads the position repeatedly.
    const readTimer = setInterval(() => resolveRead(2n), 5);
    expect(await secondWaitPromise).to.equal(true);
    clearInterval(readTimer);
    expect(readCount).to.be.at.least(2);
  });

  it("a wait returns false after the time limit", async () => {
    const watch = createPositionWatch(async () => 1n);
    const startedAtMs = performance.now();
    expect(await watch.wait(2n, 60)).to.equal(false);
    expect(performance.now() - startedAtMs).to.be.within(30, 2_000);
    expect(await watch.wait(2n, 0), "without any time").to.equal(false);
  });

  it("if reading the checkpoint fails, all current waits fail and later waits succeed", async () => {
    let isReachable = false;
    const watch = createPositionWatch(async () => {
      if (!isReachable) throw new Error("no database");
      return 5n;
    });
    const outcomes = await Promise.allSettled([watch.wait(1n, 1_000), watch.wait(9n, 1_000)]);
    expect(outcomes.map(({ status }) => status)).to.deep.equal(["rejected", "rejected"]);
    isReachable = true;
    expect(await watch.wait(5n, 1_000)).to.equal(true);
  });

  it("with notifications, waits end without a read", async () => {
    const watch = createPositionWatch(async () => {
      throw new Error("the position was read");
    });
    watch.notify(1n);
    expect(await watch.wait(1n, 1_000), "a position that was reached before").to.equal(true);
    const waitPromise = watch.wait(2n, 1_000);
    watch.notify(3n);
    expect(await waitPromise).to.equal(true);
  });

  it("if a notification is missing, the position is read", async () => {
    const watch = createPositionWatch(async () => 2n);
    watch.notify(1n);
    expect(await watch.wait(2n, 10_000)).to.equal(true);
    expect(await watch.wait(3n, 50), "a position that is not reached").to.equal(false);
  });

  it("after notifications have stopped, each wait reads the position", async () => {
    const watch = createPositionWatch(async () => 1n);
    watch.notify(2n);
    watch.notify(undefined);
    expect(await watch.wait(2n, 0)).to.equal(false);
  });
});

const logger = pino({ enabled: false });

describe("notifications about the position of the read models", () => {
  const database = useResource(createReadModelDatabase, "test");
  let proxy: FaultProxy;
  let reports: (bigint | undefined)[];
  let stopListening: () => Promise<void>;

  beforeEach(async () => {
    reports = [];
    proxy = await startFaultProxy(database.urls.command);
    listen(proxy.url);
    await eventually("the first position", () => listPositions().length > 0);
  });
  afterEach(async () => {
    await stopListening();
  });

  function listen(databaseUrl: string): void {
    const options = { databaseUrl, applicationName: "listener", logger };
    stopListening = listenForPositions(options, (position) => void reports.push(position));
  }
  const listPositions = () => reports.filter((position) => position !== undefined);
  const readPosition = async () =>
    BigInt((await database.admin.query(`SELECT position FROM ${READ_MODEL_SCHEMA}.checkpoint`)).rows[0].position);
  const applyEvent = () => database.given(clinicRegistered(randomUUID()));

  it("the listener reports the current position and the position of each batch", async () => {
    const expectedPositions = [await readPosition()];
    for (let count = 0; count < 3; count += 1) {
      await applyEvent();
      expectedPositions.push(await readPosition());
    }
    await eventually("four positions", () => listPositions().length === 4);
    expect(listPositions()).to.deep.equal(expectedPositions);
  });

  it("a batch that is rolled back is not reported", async () => {
    const positionBefore = await readPosition();
    await database.admin.query(`
      CREATE FUNCTION refuse_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
      CREATE CONSTRAINT TRIGGER refuse_commit AFTER UPDATE ON ${READ_MODEL_SCHEMA}.checkpoint
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_commit()`);
    const error = await applyEvent().catch((reason: Error) => reason);
    expect(error).to.have.property("message", "refused");
    await database.admin.query(`NOTIFY ${READ_MODEL_SCHEMA}, '99'`);
    await eventually("the notification of this test", () => reports.includes(99n));
    expect(listPositions().slice(0, 2)).to.deep.equal([positionBefore, 99n]);
  });

  it("a position that changed without a notification is reported at the next check", async () => {
    await applyEvent();
    await eventually("the position of the event", () => listPositions().length === 2);
    await database.admin.query(`UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = 0`);
    await eventually("the lower position", () => reports.at(-1) === 0n);
  });

  it("after the connection was lost, the listener reports the current position again", async () => {
    await applyEvent();
    await eventually("the position of the event", () => listPositions().length === 2);
    proxy.disconnect();
    await eventually("the loss", () => reports.at(-1) === undefined);
    await applyEvent();
    proxy.restore();
    await eventually("the next position", async () => reports.at(-1) === (await readPosition()));
  });

  it("the listener notices that Postgres no longer responds", async () => {
    proxy.mute();
    await eventually("the loss", () => reports.at(-1) === undefined);
  });

  it("the listener ignores notifications that are not a position", async () => {
    await database.admin.query(`NOTIFY ${READ_MODEL_SCHEMA}, 'x1'; NOTIFY ${READ_MODEL_SCHEMA}`);
    await applyEvent();
    await eventually("the position of the event", () => listPositions().length === 2);
    expect(listPositions()[1]).to.equal(await readPosition());
  });

  it("the listener stops while Postgres does not respond", async () => {
    proxy.mute();
    await stopListening();
    listen(proxy.url);
    await stopListening();
  });
});
