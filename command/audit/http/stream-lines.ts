import { once } from "node:events";
import { PassThrough } from "node:stream";
import { ApiError } from "../../../shared/http/api-error.ts";
import { settlesWithin } from "../../../shared/runtime/timeout.ts";
import type { AuditContext } from "./queries.ts";

const CREDENTIAL_CHECK_INTERVAL_MS = 1_000;

/** Time after which a client that reads nothing is disconnected, to free the memory of its response. */
const STALL_TIMEOUT_MS = 120_000;

/**
 * Streams lines as the response. Stops reading the lines if the client disconnects or stops reading, or its credential
 * expires or is revoked. If reading the lines fails, closes the connection, so that the client does not mistake an
 * incomplete response for a complete one.
 *
 * @param lines lines with line endings, read as fast as the client reads the response
 * @param controller aborted when the response ends, to stop the source of the lines
 * @param stallTimeoutMs milliseconds until a client that reads nothing is disconnected
 * @throws the error of the first line
 */
export async function streamLines(
  ctx: AuditContext,
  lines: AsyncGenerator<string, void>,
  controller: AbortController,
  stallTimeoutMs = STALL_TIMEOUT_MS,
): Promise<void> {
  const body = new PassThrough();
  // A failure before the first line has a status of its own.
  const first = await lines.next();
  body.once("close", () => controller.abort());
  const endIfRevoked = (error: unknown) => {
    // If the log cannot be read, the lines fail, too.
    if (!(error instanceof ApiError)) return;
    ctx.state.log.write("warn", {}, "response aborted: the credential has expired or was revoked");
    body.destroy(error);
  };
  const timer = setInterval(() => {
    ctx.state.authenticateAgain().catch(endIfRevoked);
  }, CREDENTIAL_CHECK_INTERVAL_MS);
  const writeLines = async () => {
    for await (const line of continueFrom(first, lines)) {
      if (controller.signal.aborted) return;
      if (body.write(line)) continue;
      if (await settlesWithin(once(body, "drain", { signal: controller.signal }), stallTimeoutMs)) continue;
      ctx.state.log.write("warn", {}, "response aborted: the client stopped reading");
      body.destroy(new Error("the client stopped reading"));
      return;
    }
    body.end();
  };
  writeLines()
    .catch((error: unknown) => {
      if (controller.signal.aborted) return;
      ctx.state.log.write("error", { error }, "response aborted: the source of the lines failed");
      body.destroy(error as Error);
    })
    .finally(() => clearInterval(timer));
  ctx.type = "application/x-ndjson";
  ctx.set("X-Accel-Buffering", "no");
  ctx.status = 200;
  ctx.body = body;
}

async function* continueFrom(
  first: IteratorResult<string, void>,
  rest: AsyncGenerator<string, void>,
): AsyncGenerator<string, void> {
  if (first.done) return;
  yield first.value;
  yield* rest;
}
