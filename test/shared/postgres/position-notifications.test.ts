import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { pino } from "pino";
import { listenForPositions } from "../../../shared/postgres/position-notifications.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { clinicRegistered } from "../../support/clinics.ts";
import { eventually } from "../../support/eventually.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { createReadModelDatabase, type ReadModelDatabase } from "../../support/read-models.ts";

const logger = pino({ enabled: false });

describe("notifications about the position of the read models", () => {
  let database: ReadModelDatabase;
  let proxy: FaultProxy;
  let positions: (bigint | undefined)[];
  let stopListening: () => Promise<void>;

  beforeEach(async () => {
    database = await createReadModelDatabase();
    positions = [];
    proxy = await startFaultProxy(database.urls.command);
    listen(proxy.url);
    await eventually("the first position", () => positions.length > 0);
  });
  afterEach(async () => {
    await stopListening();
    await proxy.close();
    await database.close();
  });

  function listen(databaseUrl: string): void {
    const options = { databaseUrl, applicationName: "listener", logger };
    stopListening = listenForPositions(options, (position) => void positions.push(position));
  }
  const readPosition = async () =>
    BigInt((await database.admin.query(`SELECT position FROM ${READ_MODEL_SCHEMA}.checkpoint`)).rows[0].position);
  const applyEvent = () => database.given(clinicRegistered(randomUUID()));

  it("the listener reports the current position and the position of each batch", async () => {
    const expectedPositions = [await readPosition()];
    for (let count = 0; count < 3; count += 1) {
      await applyEvent();
      expectedPositions.push(await readPosition());
    }
    await eventually("four positions", () => positions.length === 4);
    expect(positions).to.deep.equal(expectedPositions);
  });

  it("a batch that is rolled back is not reported", async () => {
    const positionBefore = await readPosition();
    const otherRelease = `UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET shape = 'other'`;
    await database.admin.query(otherRelease);
    const error = await applyEvent().catch((reason: Error) => reason);
    expect(error).to.have.property("name", "LeadershipLostError");
    await database.admin.query(`NOTIFY ${READ_MODEL_SCHEMA}, '99'`);
    await eventually("the notification of this test", () => positions.includes(99n));
    expect(positions).to.deep.equal([positionBefore, 99n]);
  });

  it("after the connection was lost, the listener reports the current position again", async () => {
    await applyEvent();
    await eventually("the position of the event", () => positions.length === 2);
    proxy.disconnect();
    await eventually("the loss", () => positions.length >= 3);
    await applyEvent();
    proxy.restore();
    await eventually("the next position", async () => positions.at(-1) === (await readPosition()));
    expect(positions[2]).to.equal(undefined);
  });

  it("the listener ignores notifications that are not a position", async () => {
    await database.admin.query(`NOTIFY ${READ_MODEL_SCHEMA}, 'x1'; NOTIFY ${READ_MODEL_SCHEMA}`);
    await applyEvent();
    await eventually("the position of the event", () => positions.length === 2);
    expect(positions[1]).to.equal(await readPosition());
  });

  it("the listener stops while Postgres does not respond", async () => {
    proxy.mute();
    await stopListening();
    listen(proxy.url);
    await stopListening();
  });

  it("the listener stops while Postgres is unreachable", async () => {
    await stopListening();
    listen("postgres://nobody:nothing@127.0.0.1:9/clinic");
    await eventually("the failure", () => positions.at(-1) === undefined);
    await stopListening();
  });
});
