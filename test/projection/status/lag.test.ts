import { randomUUID } from "node:crypto";
import { type EventStoreDBClient, jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { LagMeter } from "../../../projection/status/lag.ts";
import { BEFORE_FIRST_EVENT, readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { connectToLog } from "../../support/connections.ts";
import { startSeparateLog } from "../../support/own-log.ts";
import { useResource } from "../../support/resources.ts";

describe("the lag of a role", () => {
  const log = useResource(startSeparateLog);
  let client: EventStoreDBClient;

  before(async () => {
    client = connectToLog(log.eventstoreUrl);
  });

  const append = (stream: string, count: number) =>
    client.appendToStream(
      `${stream}-${randomUUID()}`,
      Array.from({ length: count }, () => jsonEvent({ type: "Unreadable", data: {} })),
    );

  it("the age of an event is measured although thousands of events before it do not concern the service", async () => {
    await append("elsewhere", 2_500);
    await append("appointment", 3);
    await append("elsewhere", 1);
    const logEnd = await readLogEnd(client);
    const meter = new LagMeter(client);
    for (const seconds of [10, 20]) {
      const lag = await meter.measure(BEFORE_FIRST_EVENT, logEnd, Date.now() + seconds * 1_000);
      expect(lag).to.include({ events: 3, exact: true });
      expect(lag.seconds).to.be.within(seconds, seconds + 60);
    }
    expect(await meter.measure(logEnd, logEnd, Date.now())).to.deep.equal({ events: 0, exact: true, seconds: 0 });
    await append("elsewhere", 2_500);
    await append("appointment", 1);
    expect((await meter.measure(logEnd, await readLogEnd(client), Date.now())).events).to.equal(1);
  });

  it("the number of many events is estimated", async () => {
    const position = await readLogEnd(client);
    await append("appointment", 3_000);
    const lag = await new LagMeter(client).measure(position, await readLogEnd(client), Date.now());
    expect(lag.exact).to.equal(false);
    expect(lag.events).to.be.within(2_000, 4_000);
  });
});
