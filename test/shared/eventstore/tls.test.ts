import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { END } from "@eventstore/db-client";
import { expect } from "chai";
import { startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { requireEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog, EMPTY_STREAM } from "../../../shared/eventstore/log.ts";
import { createWorld } from "../../projection/webhooks/world.ts";
import { connectToLog } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { getTlsFile } from "../../support/nats-server.ts";
import { startReceiver } from "../../support/receiver.ts";
import { getTestServers, makeTestRoot } from "../../support/stack.ts";
import { createRevocation } from "../../support/stored-metadata.ts";
import { startTlsProxy, type TlsProxy } from "../../support/tls-proxy.ts";

const CA_OPTION = `tlsCAFile=${getTlsFile("servers-ca.cert")}`;
const USER_OPTIONS = `userCertFile=${getTlsFile("client.cert")}&userKeyFile=${getTlsFile("client.key")}`;

/** A proxy terminates TLS, because the embedded log does not support it. */
describe("an event log with TLS", () => {
  let log: Awaited<ReturnType<typeof startLogServer>>;
  let proxy: TlsProxy;

  before(async () => {
    log = await startLogServer({ dir: `${makeTestRoot()}/log`, host: "127.0.0.1", port: 0, shouldSync: false });
    proxy = await startTlsProxy(log.port);
  });
  after(async () => {
    await log.stop();
  });

  it("projectors, relay and webhooks work with the CA and the user certificate of EVENTSTORE_URL", async () => {
    const database = await createDatabaseWithReadModels();
    const world = await createWorld({
      eventstoreUrl: `esdb://localhost:${proxy.port}?${CA_OPTION}&${USER_OPTIONS}`,
      natsUrl: (await getTestServers()).natsUrl,
      databaseUrl: database.urls.projection,
    });
    const receiver = await startReceiver();
    world.startAll();
    const endpoint = await world.registerEndpoint(receiver.url);
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "delivered");
  });

  it("256 concurrent writers, reads and a subscription share one TLS connection", async () => {
    const client = connectToLog(`esdb://localhost:${proxy.port}?${CA_OPTION}&${USER_OPTIONS}`);
    const eventLog = createEventLog(client);
    const remainingIds = new Set<string>();
    const subscription = client.subscribeToAll({ fromPosition: END });
    const received = eventually("the subscription receives all events", () => remainingIds.size === 0 || undefined);
    subscription.on("data", ({ event }) => remainingIds.delete(event?.id ?? ""));
    await once(subscription, "confirmation");
    const writers = Array.from({ length: 256 }, async () => {
      const stream = `auditor-${randomUUID()}`;
      const ids: string[] = [];
      for (let revision = EMPTY_STREAM; revision < 4n; revision += 1n) {
        const event = createRevocation(stream);
        ids.push(event.id);
        remainingIds.add(event.id);
        await eventLog.append(stream, revision, [event]);
      }
      expect((await eventLog.read(stream)).map(({ id }) => id)).to.deep.equal(ids);
    });
    await Promise.all([...writers, received]);
    await subscription.unsubscribe();
  });

  for (const [problem, options] of [
    ["the CA is missing", USER_OPTIONS],
    ["the user certificate is missing", CA_OPTION],
  ] as const)
    it(`the service does not start if ${problem}`, async () => {
      const url = `esdb://localhost:${proxy.port}?${options}`;
      const client = connectToLog(url);
      const error = await requireEventStore(client, url).catch((reason: Error) => reason);
      expect(error?.message).to.match(
        /^the event log at esdb:\/\/localhost:\d+ does not respond; check EVENTSTORE_URL/,
      );
    });
});
