import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { pino } from "pino";
import { listenForPositions } from "../../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { clinicRegistered } from "../../support/clinics.ts";
import { eventually } from "../../support/eventually.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { createReadModelDatabase, type ReadModelDatabase } from "../../support/read-models.ts";

const logger = pino({ enabled: false });

describe("notifications about the position of the read models", () => {
  let database: ReadModelDatabase;
  let proxy: FaultProxy;
  let reports: (bigint | undefined)[];
  let stopListening: () => Promise<void>;

  beforeEach(async () => {
    database = await createReadModelDatabase();
    reports = [];
    proxy = await startFaultProxy(database.urls.command);
    listen(proxy.url);
    await eventually("the first position", () => listPositions().length > 0);
  });
  afterEach(async () => {
    await stopListening();
    await proxy.close();
    await database.close();
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

  it("the listener stops while Postgres does not respond", async function () {
    this.timeout(20_000);
    proxy.mute();
    await stopListening();
    listen(proxy.url);
    await stopListening();
  });

  it("the listener stops while Postgres is unreachable", async () => {
    await stopListening();
    listen("postgres://nobody:nothing@127.0.0.1:9/clinic");
    await eventually("the failure", () => reports.at(-1) === undefined);
    await stopListening();
  });
});
