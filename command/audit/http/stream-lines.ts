import { once } from "node:events";
import { PassThrough } from "node:stream";
import { settlesWithin } from "../../../shared/runtime/timeout.ts";
import type { AuditContext } from "./audited-query.ts";

const PROGRESS_INTERVAL_MS = 1_000;

/** Time after which a client that reads nothing is disconnected, to free the client's scan slot. */
const STALL_TIMEOUT_MS = 120_000;

export interface LineStream {
  /** Lines with line endings, read as fast as the client reads the response. */
  lines: AsyncIterable<string>;
  /** Returns a line that reports the progress; undefined if the client did not request progress. */
  getProgressLine?: (() => string) | undefined;
  onEnd(): void;
}

/**
 * Streams lines as the response. If the client disconnects or stops reading, the iteration over the lines ends. If the
 * iteration fails, the connection is closed, so that a client cannot mistake an incomplete response for a complete one.
 *
 * @param stallTimeoutMs milliseconds until a client that reads nothing is disconnected
 */
export function streamLines(
  ctx: AuditContext,
  { lines, getProgressLine, onEnd }: LineStream,
  stallTimeoutMs = STALL_TIMEOUT_MS,
): void {
  const body = new PassThrough();
  const controller = new AbortController();
  body.once("close", () => {
    controller.abort();
    onEnd();
  });
  const timer = setInterval(() => {
    if (getProgressLine && !body.writableNeedDrain && body.writable) body.write(getProgressLine());
  }, PROGRESS_INTERVAL_MS);
  const writeLines = async () => {
    for await (const line of lines) {
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
