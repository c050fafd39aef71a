import { PassThrough } from "node:stream";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { scanLog } from "../../../../command/audit/log/scan.ts";
import { findReplayableDeliveries } from "../../../../command/operations/recover-deliveries.ts";
import { LogUnavailableError } from "../../../../shared/eventstore/log.ts";

/** A client whose subscriptions the server ends at once, without an error. */
function endedByServer(): EventStoreDBClient {
  const subscribeToAll = () => {
    const subscription = new PassThrough({ objectMode: true });
    subscription.end();
    return Object.assign(subscription, { unsubscribe: async () => undefined });
  };
  return { subscribeToAll } as unknown as EventStoreDBClient;
}

const outcomeOf = (work: Promise<unknown>) => work.catch((error: unknown) => error);

describe("a scan of the event log that the server ends early", () => {
  it("fails for an auditor, so that nothing incomplete is signed", async () => {
    const { signal } = new AbortController();
    const options = { client: endedByServer(), prefixes: undefined, through: 7n, signal };
    expect(await outcomeOf(scanLog(options).next())).to.be.instanceOf(LogUnavailableError);
  });

  it("fails for the recovery of deliveries, so that none is left out", async () => {
    const filter = { endpointId: "7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b", since: 0, until: undefined };
    expect(await outcomeOf(findReplayableDeliveries(endedByServer(), filter))).to.be.instanceOf(
      LogUnavailableError,
    );
  });
});
