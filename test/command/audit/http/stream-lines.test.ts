import { once } from "node:events";
import { connect } from "node:net";
import { expect } from "chai";
import pino from "pino";
import type { AuditContext } from "../../../../command/audit/http/queries.ts";
import { streamLines } from "../../../../command/audit/http/stream-lines.ts";
import { LogUnavailableError } from "../../../../shared/eventstore/log.ts";
import { ApiError } from "../../../../shared/http/api-error.ts";
import { createApp } from "../../../../shared/http/app.ts";
import { listen } from "../../../../shared/http/listen.ts";

/** More lines than the buffers between server and client can hold. */
const LINE_COUNT = 5_000;
const LINE = `${"x".repeat(10_000)}\n`;

describe("streamLines", () => {
  /**
   * Serves all lines at any path. `endPromise` resolves when the response was aborted. `countLines` returns the number
   * of lines that were read so far.
   */
  async function serveLines(stallTimeoutMs: number, authenticateAgain = async () => {}) {
    let lineCount = 0;
    let onEnd = () => {};
    const endPromise = new Promise<void>((resolve) => {
      onEnd = resolve;
    });
    async function* lines() {
      for (; lineCount < LINE_COUNT; lineCount += 1) yield LINE;
    }
    const logger = pino({ level: "silent" });
    const app = createApp({ logger, retiredPaths: [], isProxyTrusted: false, checkReadiness: async () => ({}) });
    app.use(async (ctx) => {
      Object.assign(ctx.state, { authenticateAgain });
      const controller = new AbortController();
      controller.signal.addEventListener("abort", onEnd);
      await streamLines(ctx as unknown as AuditContext, lines(), controller, stallTimeoutMs);
    });
    const server = await listen(app.callback(), "127.0.0.1", 0);
    return { ...server, endPromise, countLines: () => lineCount };
  }

  it("a streamed response ends if the client stays connected but reads nothing", async () => {
    const server = await serveLines(300);
    const client = connect(Number(new URL(server.url).port), "127.0.0.1");
    const clientClosePromise = once(client, "close");
    client.on("error", () => undefined);
    client.pause();
    client.write("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    await server.endPromise;
    expect(server.countLines()).to.be.within(1, LINE_COUNT - 1);
    client.resume();
    await clientClosePromise;
    await server.close();
  });

  it("a streamed response ends if its credential is revoked, but not if the log cannot check it", async () => {
    let checkCount = 0;
    const server = await serveLines(60_000, async () => {
      checkCount += 1;
      throw checkCount === 1 ? new LogUnavailableError("down") : new ApiError(401, "invalid_token");
    });
    const response = await fetch(server.url);
    const reader = response.body!.getReader();
    await reader.read();
    await server.endPromise;
    expect(checkCount).to.equal(2);
    expect(server.countLines()).to.be.below(LINE_COUNT);
    const readAll = async () => {
      while (!(await reader.read()).done);
    };
    expect(await readAll().catch((error: Error) => error)).to.be.an("error");
    await server.close();
  });

  it("a streamed response to a slow client continues while the client reads", async () => {
    const server = await serveLines(3_000);
    const response = await fetch(server.url);
    let receivedByteCount = 0;
    // The whole response takes longer than the stall timeout.
    const startedAtMs = performance.now();
    for await (const chunk of response.body ?? []) {
      receivedByteCount += chunk.length;
      if (performance.now() - startedAtMs < 3_500) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(receivedByteCount).to.equal(LINE_COUNT * LINE.length);
    await server.endPromise;
    await server.close();
  });
});
