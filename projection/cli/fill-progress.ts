import type { ProjectionProgress } from "../engine/projection.ts";
import type { Terminal } from "./command.ts";

/** Progress is told this often. Milliseconds. */
const EVERY = 1_000;

/** Tells how far a run through the log is: share and time left by the log's positions, and events a second. */
export function fillProgress(terminal: Terminal, end: bigint): (progress: ProjectionProgress) => void {
  const started = performance.now();
  let from: { position: bigint; events: number } | undefined;
  let told = started;
  return ({ position, events, waitsFor }) => {
    from ??= { position, events };
    const now = performance.now();
    if (now - told < EVERY) return;
    told = now;
    const seconds = (now - started) / 1000;
    const share = end > 0n ? Math.min(1, Number(position) / Number(end)) : 1;
    const speed = (Number(position) - Number(from.position)) / seconds;
    const left = speed > 0 ? Math.max(0, Math.round((Number(end) - Number(position)) / speed)) : undefined;
    const rate = Math.round((events - from.events) / seconds);
    const wait = waitsFor === null ? "" : `, waits for ${waitsFor}`;
    terminal.progress(
      `${(share * 100).toFixed(1)} % of the log, ${rate} events/s, ${left ?? "?"} s left${wait}`,
    );
  };
}
