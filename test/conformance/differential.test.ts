/**
 * Sends the same generated sequences of calls to the server at EVENTSTORE_URL and to an embedded log, and compares the
 * answers. For each difference that was found and removed, the conformance suite contains a test.
 *
 * The test omits features that the embedded log does not support (deploy/local/eventstore/README.md). It also omits
 * these calls:
 *
 * - Reads of all streams with a maximum of 0 events: EventStoreDB never answers.
 * - Appends whose ids are all stored in the stream, with the last id long before the first id: EventStoreDB never
 *   answers.
 * - Empty appends to a deleted stream: if they expect no stream, KurrentDB accepts them and EventStoreDB refuses them.
 *   The embedded log accepts them.
 * - Metadata of a tombstoned stream: the answer of EventStoreDB depends on the content of its caches.
 * - A `$maxAge` that only some events of a stream exceed: the answers would depend on the time of each call.
 * - Retries of events that are older than `$maxAge`: EventStoreDB returns no log position, and the embedded log returns
 *   it.
 * - Oversized appends whose deadline has passed: both servers refuse them, but with different errors.
 *
 * Servers report checkpoints at different positions. So the test only checks that a subscription can continue from a
 * checkpoint. Other clients may write to the server during the test.
 */
import { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import fc from "fast-check";
import { z } from "zod";
import type { LogServer } from "../../deploy/local/eventstore/server.ts";
import { startSeparateLog } from "../support/own-log.ts";
import { callSequence } from "./differential/call-sequences.ts";
import { type Call, Sequence } from "./differential/calls.ts";
import { type ServerClients, ServerRun } from "./differential/server-run.ts";

const settings = z
  .object({
    EVENTSTORE_URL: z.string().default(""),
    DIFFERENTIAL_RUNS: z.coerce.number().int().positive().default(40),
    DIFFERENTIAL_SEED: z.coerce.number().int().optional(),
  })
  .parse(process.env);

describe("the embedded log and the server at EVENTSTORE_URL", function () {
  this.timeout((settings.DIFFERENTIAL_RUNS + 40) * 10_000);
  let server: LogServer;

  before(async function () {
    if (settings.EVENTSTORE_URL === "") return this.skip();
    server = await startSeparateLog({ shouldSync: true });
  });

  /**
   * Sends the calls one after the other. If a connection breaks, the client fails the appends of all its connections.
   */
  async function compare(calls: readonly Call[]): Promise<void> {
    const external = connect(settings.EVENTSTORE_URL);
    const embedded = connect(`esdb://127.0.0.1:${server.port}?tls=false`);
    const sequence = new Sequence();
    const externalRun = await ServerRun.start(external, sequence);
    const embeddedRun = await ServerRun.start(embedded, sequence);
    try {
      for (const [index, call] of calls.entries()) {
        const expectedAnswer = await externalRun.send(call);
        expect(await embeddedRun.send(call), `call ${index}: ${JSON.stringify(call)}`).to.deep.equal(expectedAnswer);
      }
      const expectedAnswer = await externalRun.finish();
      expect(await embeddedRun.finish(), "subscriptions, positions and events").to.deep.equal(expectedAnswer);
    } finally {
      await externalRun.stop();
      await embeddedRun.stop();
    }
  }

  it("give the same answers to generated sequences of calls", async () => {
    const { DIFFERENTIAL_RUNS: numRuns, DIFFERENTIAL_SEED: seed } = settings;
    const property = fc.asyncProperty(callSequence, compare);
    await fc.assert(property, {
      numRuns,
      ...(seed === undefined ? {} : { seed }),
      // After a failure, fast-check shrinks the sequence until this limit.
      interruptAfterTimeLimit: (numRuns + 20) * 10_000,
      markInterruptAsFailure: true,
    });
  });
});

function connect(url: string): ServerClients {
  const separator = url.includes("?") ? "&" : "?";
  return {
    client: EventStoreDBClient.connectionString(url),
    lenientClient: EventStoreDBClient.connectionString(`${url}${separator}throwOnAppendFailure=false`),
  };
}
