import { once } from "node:events";
import http, { type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { type HttpServer, listen } from "../../../shared/http/listen.ts";
import { eventually } from "../../support/eventually.ts";

/** Longer than the test, so that only the server's own close ends a request. Milliseconds. */
const DRAIN_TIMEOUT_MS = 600_000;

describe("a server that drains", function () {
  this.timeout(30_000);
  let server: HttpServer;
  let agent: http.Agent;
  /** Response that the handler has not ended. */
  let openResponse: ServerResponse | undefined;

  beforeEach(async () => {
    agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    openResponse = undefined;
    server = await listen(
      (request, response) => {
        if (request.url === "/stream") response.write("first");
        if (request.url === "/") response.end("done");
        else openResponse = response;
      },
      "127.0.0.1",
      0,
      DRAIN_TIMEOUT_MS,
    );
  });

  afterEach(() => agent.destroy());

  async function get(path: string) {
    const request = http.get(`${server.url}${path}`, { agent });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    return { status: response.statusCode, connection: response.headers.connection, body: await text(response) };
  }

  it("a server that drains is not ready, handles requests, and closes their connections", async () => {
    expect(await get("/")).to.deep.equal({ status: 200, connection: "keep-alive", body: "done" });
    server.startDrain();
    expect(await get("/")).to.deep.equal({ status: 200, connection: "close", body: "done" });
    expect(await get("/health/ready")).to.deep.equal({
      ...{ status: 503, connection: "close" },
      body: '{"ok":false,"parts":{"process":"stopping"}}',
    });
    await server.close();
  });

  it("a request in progress is finished, and its connection is closed", async () => {
    const responsePromise = get("/slow");
    await eventually("the request arrives", () => openResponse !== undefined);
    const closePromise = server.close();
    openResponse?.end("late");
    expect(await responsePromise).to.deep.equal({ status: 200, connection: "close", body: "late" });
    await closePromise;
  });

  it("a server closes the connection of a response whose headers were sent before the drain", async () => {
    const request = http.get(`${server.url}/stream`, { agent });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    const startedAt = performance.now();
    const closePromise = server.close();
    openResponse?.end("last");
    expect(await text(response)).to.equal("firstlast");
    await closePromise;
    // Node itself closes an idle connection after five seconds.
    expect(performance.now() - startedAt).to.be.below(4_000);
  });
});
