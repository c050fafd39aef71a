import { once } from "node:events";
import { PassThrough } from "node:stream";
import type { AuditContext } from "./audited-query.ts";

/** Interval between progress lines, if requested. Milliseconds. */
const REPORT_INTERVAL_MS = 1_000;

/** A client that reads nothing for this long is disconnected, to free its scan slot. Milliseconds. */
const STALL_TIMEOUT_MS = 120_000;

export interface LineStream {
  /** Lines with line endings, read as fast as the client reads them. */
  lines: AsyncIterable<string>;
  /** Returns a progress line; undefined if not requested. */
  progress?: (() => string) | undefined;
  /** Called once when the response has ended for any reason. */
  over(): void;
}

/**
 * Streams lines as the response. If the client disconnects or stops reading, the source is ended. If the source
 * fails, the connection is cut, so that a client cannot mistake a part for the whole.
 *
 * @param stalledAfter milliseconds
 */
export function streamLines(
  ctx: AuditContext,
  { lines, progress, over }: LineStream,
  stalledAfter = STALL_TIMEOUT_MS,
): void {
  const out = new PassThrough();
  const gone = new AbortController();
  out.once("close", () => {
    gone.abort();
    over();
  });
  const timer = setInterval(() => {
    if (progress && !out.writableNeedDrain && out.writable) out.write(progress());
  }, REPORT_INTERVAL_MS);
  const drained = async () => {
    const stalled = setTimeout(() => {
      ctx.state.log.warn("response aborted: the client stopped reading");
      out.destroy(new Error("the client stopped reading"));
    }, stalledAfter);
    try {
      await once(out, "drain", { signal: gone.signal });
    } finally {
      clearTimeout(stalled);
    }
  };
  const pump = async () => {
    for await (const line of lines) {
      if (gone.signal.aborted) return;
      if (!out.write(line)) await drained();
    }
    out.end();
  };
  pump()
    .catch((error: unknown) => {
      if (gone.signal.aborted) return;
      ctx.state.log.error({ error }, "response aborted: the source failed");
      out.destroy(error as Error);
    })
    .finally(() => clearInterval(timer));
  ctx.type = "application/x-ndjson";
  ctx.set("X-Accel-Buffering", "no");
  ctx.status = 200;
  ctx.body = out;
}
