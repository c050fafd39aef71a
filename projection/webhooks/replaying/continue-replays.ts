import type { ReplayDeps } from "../matching/restore.ts";
import { continueReplay, type ReplayStep } from "./continue-replay.ts";
import { findUnfinishedReplays } from "./unfinished-replays.ts";

/**
 * Replays one batch of each application that has an unfinished replay.
 *
 * @param clock returns milliseconds since 1970
 * @returns true if a batch was replayed, so that events were added to the outbox and more batches may remain
 * @throws {LogUnavailableError}
 */
export async function continueReplays(deps: ReplayDeps, clock: () => number): Promise<boolean> {
  const steps: ReplayStep[] = [];
  for (const replay of await findUnfinishedReplays(deps.pool)) steps.push(await continueReplay(deps, replay, clock()));
  return steps.some((step) => step === "started" || step === "ended");
}
