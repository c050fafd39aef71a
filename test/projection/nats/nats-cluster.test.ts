import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { type ClusterInfo, type JetStreamManager, RetentionPolicy } from "nats";
import { deriveStreamNames, ensureEventStream, JETSTREAM_OPTIONS } from "../../../projection/nats/event-stream.ts";
import { connectNats } from "../../../projection/nats/nats-session.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { getTlsFile, type NatsServer, startNatsCluster, TLS_BLOCK } from "../../support/nats-server.ts";
import { type OwnLog, startSeparateLog } from "../../support/own-log.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { releaseLater } from "../../support/resources.ts";
import type { TestDatabase } from "../../support/stack.ts";
import { createWorld, type Endpoint, type World } from "../webhooks/world.ts";

/** The rights that docs/operations/nats.md recommends for the user of the service. */
const AUTHORIZATION = `authorization { users: [ {
  user: "clinic", password: "p@ss,word"
  permissions: { publish: ["clinic.public_events.>", "$JS.API.>"], subscribe: ["_INBOX.>", "clinic.public_events.>"] }
} ] }`;
const LOGIN = `clinic:${encodeURIComponent("p@ss,word")}`;
const TLS_FILES = {
  NATS_CA_FILE: getTlsFile("servers-ca.cert"),
  NATS_CERT_FILE: getTlsFile("client.cert"),
  NATS_KEY_FILE: getTlsFile("client.key"),
};
const OPERATORS_MAX_MESSAGES = 50_000;
const REQUEST_INTERVAL_MS = 200;

/** Number of kills of the stream's leader. Two minutes of kills: `LEADER_KILLS=12`. */
const LEADER_KILLS = Number(process.env.LEADER_KILLS ?? 1);
const KILL_INTERVAL_MS = 10_000;

const logger = createLogger("test", "silent");

describe("relay and dispatchers with a cluster of three NATS servers", function () {
  this.timeout(600_000);
  let servers: NatsServer[];
  let natsUrl: string;
  let log: OwnLog;
  let database: TestDatabase;
  let world: World;
  let receiver: Receiver;
  let endpoint: Endpoint;

  before(async () => {
    servers = await startNatsCluster(`${AUTHORIZATION}\n${TLS_BLOCK}`);
    releaseLater(() => Promise.all(servers.map((server) => server.kill())));
    natsUrl = servers.map(({ host }) => `tls://${LOGIN}@${host}`).join(",");
    log = await startSeparateLog();
    database = await createDatabaseWithReadModels();
    const { eventstoreUrl } = log;
    world = await createWorld({ eventstoreUrl, natsUrl, nats: TLS_FILES, databaseUrl: database.urls.projection });
    receiver = await startReceiver();
    endpoint = await world.registerEndpoint(receiver.url);
  });

  const withManager = async <Result>(run: (jsm: JetStreamManager) => Promise<Result>): Promise<Result> => {
    const connection = await connectNats({ NATS_URL: natsUrl, ...TLS_FILES }, "test");
    try {
      return await run(await connection.jetstreamManager(JETSTREAM_OPTIONS));
    } finally {
      await connection.close();
    }
  };
  const readStreamConfig = () => withManager(async (jsm) => (await jsm.streams.info(stream().name)).config);
  const stream = () => deriveStreamNames(world.databaseUrl);
  const haveAllCaughtUp = async () => {
    const areHealthy = await Promise.all(servers.map((server) => server.isHealthy()));
    if (areHealthy.includes(false)) return false;
    return withManager(async (jsm) => {
      return isComplete((await jsm.streams.info(stream().name)).cluster);
    }).catch(() => false);
  };

  /** A wiped server can take more than a minute to get its data from the others. */
  const awaitReplicas = () => eventually("three replicas", haveAllCaughtUp, 180_000);

  const findLeader = async () => {
    const info = await withManager((jsm) => jsm.streams.info(stream().name)).catch(() => undefined);
    return servers[["n1", "n2", "n3"].indexOf(info?.cluster?.leader ?? "")];
  };

  /** Requests appointments until `stop` is called, which returns the ids of their events. */
  const createLoad = () => {
    const appointments: ReturnType<World["requestAppointment"]>[] = [];
    const requestOne = () => {
      appointments.push(world.requestAppointment(endpoint.clinicId));
      return appointments.at(-1)!;
    };
    const timer = setInterval(() => void requestOne().catch(() => undefined), REQUEST_INTERVAL_MS).unref();
    return {
      requestOne,
      async stop() {
        clearInterval(timer);
        return (await Promise.all(appointments)).map(({ eventId }) => eventId);
      },
    };
  };

  it("a stream with one replica gets two more, keeps its operator's settings, and never loses replicas", async () => {
    const { name, subjectPrefix } = stream();
    await eventually("the stream", () =>
      withManager((jsm) =>
        jsm.streams.add({
          name,
          subjects: [`${subjectPrefix}.>`],
          retention: RetentionPolicy.Limits,
          num_replicas: 1,
          max_msgs: OPERATORS_MAX_MESSAGES,
        }),
      ).catch(() => false as const),
    );
    world.startAll();
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "delivered");
    const expectedConfig = { num_replicas: 3, max_msgs: OPERATORS_MAX_MESSAGES };
    expect(await readStreamConfig()).to.include(expectedConfig);
    await awaitReplicas();
    await withManager((jsm) => ensureEventStream(jsm, { ...stream(), replicas: 1 }, logger));
    expect(await readStreamConfig()).to.include(expectedConfig);
  });

  it("if the stream's leader is killed every ten seconds, each webhook arrives once or has an attempt with an unknown outcome", async function () {
    this.timeout(600_000 + LEADER_KILLS * KILL_INTERVAL_MS);
    await awaitReplicas();
    const load = createLoad();
    for (let kills = 0; kills < LEADER_KILLS; kills += 1) {
      const intervalEnd = performance.now() + KILL_INTERVAL_MS;
      const leader = await eventually("a leader", findLeader);
      await leader.kill();
      await leader.start();
      await delay(intervalEnd - performance.now());
    }
    const eventIds = await load.stop();
    for (const eventId of eventIds) {
      const { attempts } = await world.awaitStatus(eventId, endpoint, "delivered");
      const unknownOutcomes = attempts.filter(({ status_code }) => status_code === null);
      const requests = receiver.listDeliveryRequests(deriveWebhookDeliveryId(eventId, endpoint.endpointId));
      expect(requests.length, eventId).to.be.within(1, 1 + unknownOutcomes.length);
    }
    expect(eventIds.length).to.be.above(LEADER_KILLS);
  });

  it("if all servers are killed and wiped one after another, webhooks continue and none is lost", async () => {
    const load = createLoad();
    for (const server of servers) {
      await awaitReplicas();
      await server.kill();
      server.wipe();
      const { eventId } = await load.requestOne();
      await world.awaitStatus(eventId, endpoint, "delivered");
      await server.start();
    }
    for (const eventId of await load.stop()) await world.awaitStatus(eventId, endpoint, "delivered");
  });
});

function isComplete(cluster: ClusterInfo | undefined): boolean {
  const replicas = cluster?.replicas ?? [];
  return cluster?.leader !== undefined && replicas.filter(({ current, offline }) => current && !offline).length === 2;
}
