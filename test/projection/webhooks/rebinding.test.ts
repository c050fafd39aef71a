import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { expect } from "chai";
import { type Connections, createConnections } from "../../../projection/webhooks/send/connections.ts";
import { send } from "../../../projection/webhooks/send/send.ts";
import { checkDestination, resolveHost, type SafeDestination } from "../../../shared/webhooks/destination.ts";
import { type DnsServer, startDnsServer } from "../../support/dns-server.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { createWorld } from "./world.ts";

const PUBLIC_ADDRESS = "93.184.216.34";
const PRIVATE_ADDRESS = "127.0.0.1";
const HOST_NAME = "hooks.partner.example";

describe("a host name that resolves to a private address after the check", () => {
  let dnsServer: DnsServer;
  /** Server at a private address. The host name resolves to this address later. */
  let privateServer: Awaited<ReturnType<typeof listenOnLoopback>>;
  let connectionCount = 0;

  beforeEach(async () => {
    connectionCount = 0;
    dnsServer = await startDnsServer();
    const server = createServer((socket) => {
      connectionCount += 1;
      socket.destroy();
    });
    privateServer = await listenOnLoopback(server, 0, PRIVATE_ADDRESS);
  });

  const lookup = (host: string) => resolveHost(host, [dnsServer.address]);

  it("if a host name resolves to a private address after registration, each attempt is refused", async () => {
    dnsServer.setAddresses(PUBLIC_ADDRESS, PRIVATE_ADDRESS);
    const url = `https://${HOST_NAME}:8443/in`;
    const checkedDestination = await checkDestination(url, { allowsLoopback: false, lookup });
    expect(checkedDestination.addresses).to.deep.equal([PUBLIC_ADDRESS]);
    const world = await createWorld();
    world.startAll({ allowsLoopback: false, lookup, retryScheduleSeconds: [0.05] });
    const endpoint = await world.registerEndpoint(url);
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const { attempts } = await world.awaitStatus(eventId, endpoint, "failed");
    expect(attempts.map(({ status_code, error }) => [status_code, error])).to.deep.equal([
      [null, "address_not_public"],
      [null, "address_not_public"],
    ]);
    expect(dnsServer.questions.filter((question) => question === `A ${HOST_NAME}`)).to.have.length(3);
  });

  it("an attempt connects to the checked address without a second DNS lookup", async () => {
    dnsServer.setAddresses(PUBLIC_ADDRESS, PRIVATE_ADDRESS);
    const realConnections = createConnections();
    const destinations: SafeDestination[] = [];
    // A connection to the public address is redirected to the local server.
    const routedConnections: Connections = {
      ...realConnections,
      post(applicationId, destination, headers, useNewConnection) {
        destinations.push(destination);
        const url = new URL(destination.url);
        url.port = String(privateServer.port);
        return realConnections.post(applicationId, { url, addresses: [PRIVATE_ADDRESS] }, headers, useNewConnection);
      },
    };
    const attemptResult = await send(`https://${HOST_NAME}:8443/in`, {}, "{}", {
      connections: routedConnections,
      applicationId: randomUUID(),
      allowsLoopback: false,
      lookup,
      connectTimeoutMs: 2_000,
      timeoutMs: 2_000,
      signal: new AbortController().signal,
    });
    realConnections.close();
    expect(destinations.map(({ addresses }) => addresses)).to.deep.equal([[PUBLIC_ADDRESS]]);
    expect([connectionCount, attemptResult?.statusCode]).to.deep.equal([1, null]);
    expect(dnsServer.questions).to.have.members([`A ${HOST_NAME}`, `AAAA ${HOST_NAME}`]);
  });

  it("a request connects to the checked address even if the host name now resolves to another address", async () => {
    dnsServer.setAddresses("203.0.113.9");
    const connections = createConnections();
    const url = new URL(`http://${HOST_NAME}:${privateServer.port}/`);
    const request = connections.post(randomUUID(), { url, addresses: [PRIVATE_ADDRESS] }, {}, false);
    await once(request.end("{}"), "error");
    connections.close();
    expect(connectionCount).to.equal(1);
    expect(dnsServer.questions).to.deep.equal([]);
  });
});
