import http2 from "node:http2";
import { createServer } from "node:net";
import { setImmediate } from "node:timers/promises";
import { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { connectEventStore, reachEventStore, requireEventStore } from "../../../shared/eventstore/connect.ts";
import { LogUnavailableError } from "../../../shared/eventstore/log.ts";
import { readWithin } from "../../../shared/eventstore/read-log.ts";
import { StartError } from "../../../shared/runtime/run-service.ts";
import { connectToLog } from "../../support/connections.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { startRefusingLog } from "../../support/refusing-log.ts";
import { getRejection } from "../../support/rejection.ts";
import { getTestServers } from "../../support/stack.ts";

describe("reaching the event log", () => {
  it("the check of the event log succeeds if the log responds", async () => {
    const { eventstoreUrl } = await getTestServers();
    const client = connectToLog(eventstoreUrl);
    await reachEventStore(client, 5_000);
    await requireEventStore(client, eventstoreUrl);
  });

  it("the check of the event log ends in time if a server accepts connections but never responds", async () => {
    const { host } = await listenOnLoopback(createServer());
    const client = connectToLog(`esdb://${host}?tls=false`);
    const startedAtMs = performance.now();
    const error = await getRejection(reachEventStore(client, 300));
    expect(error).to.be.instanceOf(LogUnavailableError);
    expect(performance.now() - startedAtMs).to.be.within(250, 5_000);
  });

  it("a client whose reads were abandoned can be disposed", async () => {
    const { eventstoreUrl } = await getTestServers();
    const client = connectToLog(eventstoreUrl);
    await reachEventStore(client, 15_000);
    for await (const _ of readWithin(15_000, client.readAll())) break;
    const latePromise = reachEventStore(client, 50).catch((error: Error) => error);
    await setImmediate();
    // The response arrives while the process is busy, so the time limit has ended when the process reads it.
    for (const startedAtMs = performance.now(); performance.now() - startedAtMs < 500; );
    expect(await latePromise).to.be.instanceOf(LogUnavailableError);
  });

  it("the error for an unreachable event log is one line without credentials and options of the URL", async () => {
    const url = "esdb://admin:p@ss@127.0.0.1:1?tls=false";
    const client = connectToLog(url);
    const error = await getRejection(requireEventStore(client, url));
    expect(error).to.be.instanceOf(StartError);
    expect(error.message).to.equal(
      "the event log at esdb://127.0.0.1:1 does not respond; check EVENTSTORE_URL and that the log is running",
    );
  });

  for (const [problem, grpcStatus] of [
    ["the server refuses the credentials", 16],
    ["the user may not read $all", 7],
  ] as const)
    it(`the error of the start says that access is denied if ${problem}`, async () => {
      const { url, stop } = await startRefusingLog(grpcStatus);
      const client = connectToLog(url);
      const error = await getRejection(requireEventStore(client, url));
      expect(error).to.be.instanceOf(StartError);
      expect(error.message).to.match(
        /denies access; check the user in EVENTSTORE_URL, and that the user may read \$all$/,
      );
      stop();
    });

  it("a client finds the log through the hosts of a cluster, and skips a host that does not respond", async () => {
    const { port } = new URL((await getTestServers()).eventstoreUrl);
    for (const [scheme, options] of [
      ["esdb", ""],
      ["kurrentdb", "&nodePreference=follower"],
    ]) {
      const client = connectToLog(`${scheme}://127.0.0.1:1,127.0.0.1:${port}?tls=false${options}`);
      await reachEventStore(client, 10_000);
    }
  });

  it("the check of the event log fails if no host of a cluster responds", async () => {
    const client = connectToLog("esdb://127.0.0.1:1,127.0.0.1:2?tls=false");
    const error = await getRejection(reachEventStore(client, 10_000));
    expect(error).to.be.instanceOf(LogUnavailableError);
  });

  for (const [problem, url, message] of [
    ["a certificate file does not exist", "esdb://host?tlsCAFile=/nowhere/ca.crt", /^EVENTSTORE_URL: .*not found/i],
    ["an option is invalid", "esdb://admin:secret@host?nodePreference=best", /^EVENTSTORE_URL: .* contain leader or /],
  ] as const)
    it(`a connection string is refused in one line without credentials if ${problem}`, () => {
      expect(() => connectToLog(url)).to.throw(StartError, message);
    });
});

/** Environment variables that gRPC reads to find a proxy. */
const PROXY_VARIABLES = ["grpc_proxy", "https_proxy", "http_proxy"];

/** URL on which nothing listens. */
const DEAD_PROXY = "http://127.0.0.1:9";

describe("a proxy in the environment", () => {
  afterEach(() => {
    for (const name of [...PROXY_VARIABLES, "no_grpc_proxy"]) delete process.env[name];
  });

  for (const variable of PROXY_VARIABLES)
    for (const discovers of [false, true])
      it(`the client connects directly to ${discovers ? "the discovered nodes of a cluster" : "a node"} although ${variable} names a proxy`, async () => {
        process.env[variable] = DEAD_PROXY;
        const { eventstoreUrl } = await getTestServers();
        const client = connectToLog(discovers ? eventstoreUrl.replace("esdb://", "esdb+discover://") : eventstoreUrl);
        await reachEventStore(client, 15_000);
      });
});

describe("compression of the event log's responses", () => {
  let url: string;
  const requests: http2.IncomingHttpHeaders[] = [];

  before(async () => {
    const server = http2.createServer();
    server.on("stream", (stream, headers) => {
      requests.push(headers);
      stream.respond({ "content-type": "application/grpc", "grpc-status": 7 }, { endStream: true });
    });
    url = `esdb://${(await listenOnLoopback(server)).host}?tls=false`;
  });

  /** Returns the headers of one request that the client sends. */
  async function requestOnce(client: EventStoreDBClient): Promise<http2.IncomingHttpHeaders> {
    requests.length = 0;
    const error = await client
      .readAll({ maxCount: 1 })
      [Symbol.asyncIterator]()
      .next()
      .catch((error) => error);
    expect(error).to.have.property("code", 7);
    await client.dispose();
    expect(requests).to.have.length(1);
    return requests[0] as http2.IncomingHttpHeaders;
  }

  it("a client of the service accepts only uncompressed messages", async () => {
    expect(await requestOnce(connectEventStore(url, "test"))).not.to.have.property("grpc-accept-encoding");
  });

  it("other clients in the process keep accepting compressed messages", async () => {
    const headers = await requestOnce(EventStoreDBClient.connectionString(url));
    expect(headers).to.have.property("grpc-accept-encoding").that.includes("gzip");
  });
});
