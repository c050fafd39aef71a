import { once } from "node:events";
import { PassThrough } from "node:stream";
import type { AuditContext } from "./audited-query.ts";

/** A line about the progress goes out this often, where it is wanted. Milliseconds. */
const REPORT_INTERVAL_MS = 1_000;

/** Whoever takes nothing for this long is hung up on: the place of the scan is wanted by others. Milliseconds. */
const STALL_TIMEOUT_MS = 120_000;

export interface LineAnswer {
  /** Each with its line end; read as fast as the client takes them. */
  lines: AsyncIterable<string>;
  /** A line that says how far it is; undefined where nobody wants to know. */
  progress?: (() => string) | undefined;
  /** Called once, when the answer is over, whichever way. */
  over(): void;
}

/**
 * Answers with lines while they are read. A client that goes away, or takes nothing for long, ends the reading; a
 * reading that fails cuts the connection, so that nobody takes a part for the whole.
 *
 * @param stalledAfter milliseconds
 */
export function answerLines(
  ctx: AuditContext,
  { lines, progress, over }: LineAnswer,
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
      ctx.state.log.warn("a list was broken off: its reader took nothing for too long");
      out.destroy(new Error("its reader took nothing for too long"));
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
      ctx.state.log.error({ error }, "a list was broken off");
      out.destroy(error as Error);
    })
    .finally(() => clearInterval(timer));
  ctx.type = "application/x-ndjson";
  ctx.set("X-Accel-Buffering", "no");
  ctx.status = 200;
  ctx.body = out;
}
