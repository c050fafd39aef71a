import type pg from "pg";
import { pause } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import type { Notifier } from "../../shared/runtime/notifier.ts";
import { keepTrying, type Troubles } from "./outbox/keep-trying.ts";
import type { Outcome } from "./outcomes/outcome.ts";
import { type OutcomeWriterOptions, writeEnded } from "./outcomes/outcome-writer.ts";
import { releaseLeases } from "./outcomes/outcomes.ts";
import { findDueEndpoints } from "./scheduling/due.ts";
import type { DueEndpoints } from "./scheduling/due-endpoints.ts";
import { type Allotment, createSlots, MOST_HELD, type Slot, type Slots } from "./scheduling/slots.ts";
import { type Claimed, claimDue } from "./sending/claim.ts";
import { type DeliverOptions, deliver } from "./sending/deliver.ts";
import { judge } from "./sending/retry-policy.ts";
import type { AttemptLimits } from "./sending/send.ts";

export interface SenderOptions extends DeliverOptions, OutcomeWriterOptions {
  pool: pg.Pool;
  /** Seconds before each retry. */
  schedule: readonly number[];
  troubles: Troubles;
  /** Endpoints with deliveries to send, as far as they are known. */
  due: DueEndpoints;
  /** Woken when all endpoints are to be searched for deliveries that are due. */
  search: Notifier;
  /** From 0 up to, not including, 1. */
  random(): number;
}

/** Retries come due without anybody saying so; they are at most about twice as late. Milliseconds. */
const SEARCH_EVERY = 200;

/** A search is followed by a rest of at least this many times its duration, so that it cannot take up the database. */
const SEARCH_REST = 9;

/** What comes due, or finds room, within this is claimed together. Milliseconds. */
const CLAIM_EVERY = 5;

/**
 * Longest sleep before the next decision. New deliveries and written outcomes wake the sender; the pace of an application
 * that is slow does not. Milliseconds.
 */
const CLAIM_REST = 25;

/** A lease lasts twice as long as an attempt may take, and a second: as long again to write its outcome. Milliseconds. */
const leaseFor = (limits: AttemptLimits) => 2 * (limits.connectTimeoutMs + limits.timeoutMs) + 1_000;

/** Attempts under way at a stop may take this long; then they are cut. Milliseconds. */
const FINISH_WITHIN = 1_500;

interface UnderWay {
  claimed: Claimed;
  slot: Slot;
  cut: AbortController;
  /** Milliseconds since 1970. */
  leaseEndsAt: number;
}

/**
 * Sends what is due until the signal aborts. Any number of processes may do it at once. An attempt is on record
 * before its first byte leaves, and how it went is on record before its delivery can be claimed again. Slots, and with
 * them the limits for endpoints, applications and environments, belong to one process.
 */
export async function runSender(options: SenderOptions, signal: AbortSignal): Promise<void> {
  const { logger, troubles, pool, due, clock } = options;
  const slots = createSlots(() => performance.now());
  const underWay = new Map<string, UnderWay>();
  // As many as can be under way, so that nobody ever waits to put one in.
  const ended = new BoundedBuffer<Outcome>(MOST_HELD);
  const sending = new Set<Promise<void>>();
  const context = { logger, troubles, signal };

  const attempt = async (claimed: Claimed, leaseEndsAt: number) => {
    const cut = new AbortController();
    const slot = slots.take(claimed);
    underWay.set(claimed.deliveryId, { claimed, slot, cut, leaseEndsAt });
    const result = await deliver(claimed, options, cut.signal);
    if (!result) return;
    // A slot is free at once; the delivery is held until its outcome is on record.
    slots.free(slot);
    const { schedule, random } = options;
    const verdict = judge(result, { attempts: claimed.attempts, schedule, now: clock(), random: random() });
    await ended.push({ claimed, result, verdict });
  };
  const claim = async (allotments: readonly Allotment[]) => {
    const additions = due.additions();
    const now = clock();
    const leaseMs = leaseFor(options);
    const { claimed, endpoints } = await claimDue(pool, allotments, overdue(underWay, now), now, leaseMs);
    for (const { endpoint, failing, more } of endpoints) {
      if (more) due.setFailing(endpoint, failing);
      else due.remove(endpoint, additions);
    }
    for (const one of claimed) {
      const sent = attempt(one, now + leaseMs).finally(() => sending.delete(sent));
      sending.add(sent);
    }
  };
  const claiming = keepTrying("claims", context, async (works) => {
    while (!signal.aborted) {
      const allotments = slots.allot(due);
      if (allotments.length === 0) {
        await due.sleep(CLAIM_REST, signal);
        continue;
      }
      await claim(allotments);
      works();
      await pause(CLAIM_EVERY, signal);
    }
  });
  const searching = keepTrying("search", context, (works) => searchOn(options, slots, works, signal));
  const onWritten = (outcomes: readonly Outcome[]) => {
    for (const { claimed } of outcomes) {
      const written = underWay.get(claimed.deliveryId);
      if (written && underWay.delete(claimed.deliveryId)) slots.letGo(written.slot);
    }
    due.wake();
  };
  const writing = writeEnded(options, ended, onWritten, signal);

  await Promise.all([claiming, searching]);
  await finish(underWay, sending);
  ended.close();
  await writing;
  await giveBack(underWay, options);
}

/** Searches for deliveries that came due by themselves, or that another process made or gave back. */
async function searchOn(
  { pool, due, search, clock }: SenderOptions,
  slots: Slots,
  works: () => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const began = performance.now();
    const known = { first: due.in("first"), retry: due.in("retry") };
    due.add(await findDueEndpoints(pool, known, clock()));
    works();
    slots.forget();
    await pause((performance.now() - began) * SEARCH_REST, signal);
    await search.sleep(SEARCH_EVERY, signal);
  }
}

/** Ids of deliveries whose lease is over, and which this process has not let go of. */
function overdue(underWay: ReadonlyMap<string, UnderWay>, now: number): string[] {
  return [...underWay].filter(([, { leaseEndsAt }]) => leaseEndsAt <= now).map(([deliveryId]) => deliveryId);
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
