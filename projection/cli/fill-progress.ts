import type { EventStoreDBClient } from "@eventstore/db-client";
import { BACKWARDS, END } from "@eventstore/db-client";
import type { ProjectionProgress } from "../engine/projection.ts";
import type { Terminal } from "./command.ts";

/** Progress is told this often. Milliseconds. */
const EVERY = 1_000;

/** The position of the log's last event; 0 where it is empty. */
export async function logEnd(client: EventStoreDBClient): Promise<bigint> {
  let end = 0n;
  for await (const { event } of client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 1 })) {
    end = event?.position.commit ?? 0n;
  }
  return end;
}

/** Tells how far a run through the log is: share, rate and time left, by the log's positions. */
export function fillProgress(terminal: Terminal, end: bigint): (progress: ProjectionProgress) => void {
  const started = performance.now();
  let from: bigint | undefined;
  let told = started;
  return ({ position, waitsFor }) => {
    from ??= position;
    const now = performance.now();
    if (now - told < EVERY) return;
    told = now;
    const share = end > 0n ? Math.min(1, Number(position) / Number(end)) : 1;
    const rate = (Number(position) - Number(from)) / ((now - started) / 1000);
    const left = rate > 0 ? Math.max(0, Math.round((Number(end) - Number(position)) / rate)) : undefined;
    const wait = waitsFor === null ? "" : `, waits for ${waitsFor}`;
    terminal.progress(
      `${(share * 100).toFixed(1)} % of the log, ${(rate / 1_000_000).toFixed(1)} MB/s, ${left ?? "?"} s left${wait}`,
    );
  };
}
