import { PassThrough } from "node:stream";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { connectivityState } from "@grpc/grpc-js";
import { expect } from "chai";
import { scanLog } from "../../../../command/audit/log/scan.ts";
import { LogUnavailableError } from "../../../../shared/eventstore/log.ts";
import { getRejection } from "../../../support/rejection.ts";

/** Creates a client whose subscriptions end immediately without an error, as if the server had ended them. */
function createEndingClient(): EventStoreDBClient {
  const subscribeToAll = () => {
    const subscription = new PassThrough({ objectMode: true });
    subscription.end();
    return Object.assign(subscription, { unsubscribe: async () => undefined });
  };
  const channel = { getConnectivityState: () => connectivityState.READY, watchConnectivityState: () => undefined };
  return { subscribeToAll, getChannel: async () => channel } as unknown as EventStoreDBClient;
}

describe("a scan of the event log that the server ends early", () => {
  it("an audit scan fails if the event log ends the subscription early, because no incomplete export may be signed", async () => {
    const { signal } = new AbortController();
    const options = { client: createEndingClient(), after: undefined, endPosition: 7n, signal };
    expect(await getRejection(scanLog(options).next())).to.be.instanceOf(LogUnavailableError);
  });
});
