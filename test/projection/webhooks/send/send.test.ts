import { randomUUID } from "node:crypto";
import { gzipSync } from "node:zlib";
import { expect } from "chai";
import { type Connections, createConnections } from "../../../../projection/webhooks/send/connections.ts";
import { send } from "../../../../projection/webhooks/send/send.ts";
import { type Reaction, startReceiver } from "../../../support/receiver.ts";
import { useResource } from "../../../support/resources.ts";

describe("one attempt", () => {
  const receiver = useResource(startReceiver);
  let connections: Connections;
  const applicationId = randomUUID();
  const neverAbortedSignal = new AbortController().signal;

  before(async () => {
    connections = createConnections();
  });
  after(async () => {
    connections.close();
  });

  const attempt = (url = receiver.url, options = {}) =>
    send(url, { "Content-Type": "application/json" }, "{}", {
      connections,
      applicationId,
      allowsLoopback: true,
      signal: neverAbortedSignal,
      connectTimeoutMs: 5_000,
      timeoutMs: 400,
      ...options,
    });
  const attemptWithReaction = (reaction: Reaction) => {
    receiver.queueReactions(reaction);
    return attempt();
  };

  it("an attempt posts the body and returns the response", async () => {
    receiver.queueReactions({ status: 202, body: "thank you" });
    const attemptResult = await attempt(`${receiver.url}/a/b?c=d%20e`);
    expect(attemptResult).to.deep.include({
      statusCode: 202,
      error: null,
      responseBody: "thank you",
      retryAfter: null,
    });
    expect(attemptResult!.durationMs).to.be.within(0, 400);
    const request = receiver.requests.at(-1)!;
    expect(request).to.deep.include({ method: "POST", path: "/a/b?c=d%20e", body: "{}" });
    expect(request.headers).not.to.have.any.keys("accept-encoding");
  });

  for (const target of ["/x?", "/?", "/a%2Fb/./c;d=1?e=&f=%20+g?h", "/%C3%A9?é", "/x??", "//y?"])
    it(`an attempt requests ${target} exactly as the URL is stored`, async () => {
      const { href } = new URL(receiver.url + target);
      expect((await attempt(href))?.statusCode).to.equal(200);
      expect(receiver.requests.at(-1)?.path).to.equal(href.slice(receiver.url.length));
    });

  it("an attempt stores the first KiB of the response body, without NUL characters", async () => {
    const attemptResult = await attemptWithReaction({ status: 500, body: `a\u0000b${"é".repeat(1_000)}` });
    expect(attemptResult!.responseBody).to.match(/^abé+$/);
    expect(Buffer.byteLength(attemptResult!.responseBody!)).to.be.within(1_020, 1_024);
  });

  it("a compressed response is not decompressed", async () => {
    const unpackedBytes = 256 * 1024 ** 2;
    const body = gzipSync(Buffer.alloc(unpackedBytes));
    expect(body.length).to.be.below(1024 ** 2);
    const rssBefore = process.memoryUsage().rss;
    const attemptResult = await attemptWithReaction({ body, headers: { "Content-Encoding": "gzip" } });
    expect(attemptResult).to.deep.include({ statusCode: 200, error: null });
    expect(attemptResult!.responseBody).to.have.lengthOf.at.most(1_024);
    expect(process.memoryUsage().rss - rssBefore).to.be.below(unpackedBytes / 4);
  });

  it("an attempt returns the Retry-After header of the response", async () => {
    expect(await attemptWithReaction({ status: 503, headers: { "Retry-After": "7" } })).to.deep.include({
      retryAfter: "7",
    });
  });

  it("a slow body delays the result by half a second", async () => {
    receiver.queueReactions({ mode: "drip" });
    const attemptResult = await attempt(receiver.url, { timeoutMs: 60_000 });
    expect(attemptResult).to.deep.include({ statusCode: 200, error: null });
    expect(attemptResult!.responseBody).to.match(/^\.+$/);
    expect(attemptResult!.durationMs).to.be.within(490, 10_000);
  });

  it("an attempt whose connection is refused fails with connection_refused", async () => {
    const closedReceiver = await startReceiver();
    await closedReceiver.close();
    expect(await attempt(closedReceiver.url)).to.deep.include({ statusCode: null, error: "connection_refused" });
  });

  it("an interrupted attempt returns no result", async () => {
    const abortController = new AbortController();
    receiver.queueReactions({ mode: "hang" });
    const attemptPromise = attempt(receiver.url, { signal: abortController.signal });
    abortController.abort();
    expect(await attemptPromise).to.equal(undefined);
  });
});
