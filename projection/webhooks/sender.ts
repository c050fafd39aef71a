import type pg from "pg";
import { backoff, pause } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../engine/bounded-buffer.ts";
import { type Claimed, claimDue, type Lane } from "./claim.ts";
import { type DeliverOptions, deliver } from "./deliver.ts";
import { keepTrying, type Troubles } from "./keep-trying.ts";
import { type Outcome, releaseLeases, writeOutcomes } from "./outcomes.ts";
import { judge } from "./retry-policy.ts";
import type { AttemptLimits } from "./send.ts";
import type { Waker } from "./waker.ts";

export interface SenderOptions extends DeliverOptions {
  pool: pg.Pool;
  /** Seconds before each retry. */
  schedule: readonly number[];
  troubles: Troubles;
  /** Woken when there is something to send. */
  due: Waker;
  /** Called when facts for the log were kept. */
  onFacts(): void;
  /** Told of each attempt whose outcome is on record: delivered, pending (again), or failed for good. */
  onAttempt?(outcome: string): void;
  /** From 0 up to, not including, 1. */
  random(): number;
}

/** Attempts at once: in all, and at one endpoint. */
const LANES: Record<Lane, { most: number; perEndpoint: number }> = {
  first: { most: 192, perEndpoint: 4 },
  retry: { most: 64, perEndpoint: 2 },
};

/** Deliveries that are not let go of: those under way, and those whose outcome is still to be written. */
const MOST_HELD = 2 * (LANES.first.most + LANES.retry.most);

/** Outcomes in one transaction; those that come within this are written together. Milliseconds. */
const BATCH = 200;
const WRITE_EVERY = 5;

/** Retries come due without anybody saying so; this is how late they may be. Milliseconds. */
const POLL = 200;

/** What comes due, or finds room, within this is claimed together. Milliseconds. */
const CLAIM_EVERY = 5;

/** A lease lasts twice as long as an attempt may take, and a second: as long again to write its outcome. Milliseconds. */
const leaseFor = (limits: AttemptLimits) => 2 * (limits.connectTimeoutMs + limits.timeoutMs) + 1_000;

/** Attempts under way at a stop may take this long; then they are cut. Milliseconds. */
const FINISH_WITHIN = 1_500;

interface UnderWay {
  claimed: Claimed;
  cut: AbortController;
  /** It has an outcome, which is still to be written: the endpoint has room for another. */
  ended: boolean;
}

/**
 * Sends what is due until the signal aborts. Any number of processes may do it at once. An attempt is on record
 * before its first byte leaves, and how it went is on record before its delivery can be claimed again.
 */
export async function runSender(options: SenderOptions, signal: AbortSignal): Promise<void> {
  const underWay = new Map<string, UnderWay>();
  // As many as can be under way, so that nobody ever waits to put one in.
  const ended = new BoundedBuffer<Outcome>(MOST_HELD);
  const sending = new Set<Promise<void>>();
  const context = { logger: options.logger, troubles: options.troubles, signal };

  const attempt = async (claimed: Claimed) => {
    const cut = new AbortController();
    const entry = { claimed, cut, ended: false };
    underWay.set(claimed.deliveryId, entry);
    const result = await deliver(claimed, options, cut.signal);
    if (!result) return;
    entry.ended = true;
    const { schedule, random } = options;
    const verdict = judge(result, {
      attempts: claimed.attempts,
      schedule,
      now: options.clock(),
      random: random(),
    });
    await ended.push({ claimed, result, verdict });
  };
  const claiming = keepTrying("claims", context, async (works) => {
    while (!signal.aborted) {
      const room = roomBeside(underWay);
      const now = options.clock();
      const claimed = await claimDue(options.pool, room, now, leaseFor(options));
      works();
      for (const one of claimed) {
        const sent = attempt(one).finally(() => sending.delete(sent));
        sending.add(sent);
      }
      if (claimed.length === 0) await options.due.sleep(POLL, signal);
      else await pause(CLAIM_EVERY, signal);
    }
  });
  const writing = writeDown(options, ended, underWay, signal);

  await claiming;
  await finish(underWay, sending);
  ended.close();
  await writing;
  await giveBack(underWay, options);
}

/** Lets the attempts under way end, and cuts those that take too long. */
async function finish(
  underWay: ReadonlyMap<string, UnderWay>,
  sending: ReadonlySet<Promise<void>>,
): Promise<void> {
  const overtime = setTimeout(() => {
    for (const { cut } of underWay.values()) cut.abort();
  }, FINISH_WITHIN);
  await Promise.all(sending);
  clearTimeout(overtime);
}

/** Gives the leases of attempts that were cut back, so that nobody need wait for them to expire. */
async function giveBack(underWay: ReadonlyMap<string, UnderWay>, options: SenderOptions): Promise<void> {
  const unfinished = [...underWay.values()].filter(({ cut }) => cut.signal.aborted);
  if (unfinished.length === 0) return;
  try {
    await releaseLeases(
      options.pool,
      unfinished.map(({ claimed }) => claimed),
      options.clock(),
    );
  } catch (error) {
    options.logger.warn({ error }, "leases were not given back; they expire");
  }
}

/** Groups what has ended and writes it. Until it is written, nothing of it is let go. */
async function writeDown(
  options: SenderOptions,
  ended: BoundedBuffer<Outcome>,
  underWay: Map<string, UnderWay>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const outcomes = await ended.take(BATCH);
    if (outcomes.length === 0) return;
    if (!(await write(options, outcomes, signal))) continue;
    for (const { claimed } of outcomes) underWay.delete(claimed.deliveryId);
    options.due.wake();
    await pause(WRITE_EVERY, signal);
  }
}

/** Tries until it is written; @returns false where the signal aborted first: those attempts stay on record as unknown */
async function write(
  options: SenderOptions,
  outcomes: readonly Outcome[],
  signal: AbortSignal,
): Promise<boolean> {
  const { pool, clock, troubles, logger } = options;
  const wait = backoff({ first: 50, most: 2_000 });
  for (;;) {
    try {
      if ((await writeOutcomes(pool, outcomes, clock())) > 0) options.onFacts();
      troubles.report("outcomes", null);
      for (const { verdict } of outcomes) options.onAttempt?.(verdict.status);
      return true;
    } catch (error) {
      logger.warn({ error, outcomes: outcomes.length }, "outcomes are not written yet");
      troubles.report("outcomes", error);
      if (signal.aborted) return false;
      await wait.next(signal);
    }
  }
}

function roomBeside(underWay: ReadonlyMap<string, UnderWay>) {
  const free = MOST_HELD - underWay.size;
  const lane = (name: Lane) => {
    const busy = new Map<string, number>();
    let taken = 0;
    for (const { claimed, ended } of underWay.values()) {
      if (ended || claimed.lane !== name) continue;
      taken += 1;
      busy.set(claimed.endpointId, (busy.get(claimed.endpointId) ?? 0) + 1);
    }
    const { most, perEndpoint } = LANES[name];
    // Half of what is free for each lane at the least, so that neither takes all that the other could have.
    return { room: Math.min(most - taken, Math.floor(free / 2)), perEndpoint, busy };
  };
  return { lanes: { first: lane("first"), retry: lane("retry") }, held: [...underWay.keys()] };
}
