import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import type Koa from "koa";
import { appendEvents, UnexpectedRevisionError } from "../eventstore/append.ts";
import type { Logger } from "../runtime/logger.ts";
import { requireReadMethod } from "./router.ts";

/**
 * Checks the dependencies of a service. The result maps the name of each dependency to its problem, or to null if the
 * dependency is ready. An implementation must limit the time of the check.
 */
export type Readiness = () => Promise<Record<string, string | null>>;

/**
 * Serves `GET /health/live` and `GET /health/ready`. `live` always returns 200. `ready` returns 503 with the problems
 * if a dependency is not ready.
 */
export function serveHealth(checkReadiness: Readiness): Koa.Middleware {
  const reportReadiness = async (ctx: Koa.Context) => {
    requireReadMethod(ctx);
    const parts = await checkReadiness();
    const ok = Object.values(parts).every((problem) => problem === null);
    ctx.status = ok ? 200 : 503;
    ctx.body = { ok, parts };
  };
  return (ctx, next) => {
    if (ctx.path === "/health/ready") return reportReadiness(ctx);
    if (ctx.path !== "/health/live") return next();
    requireReadMethod(ctx);
    ctx.body = { ok: true };
    return undefined;
  };
}

/**
 * Lets requests that arrive during a check share its result, so that many concurrent requests cause only one check of
 * the servers.
 */
export function shareRunningCheck(checkReadiness: Readiness): Readiness {
  let runningCheck: ReturnType<Readiness> | undefined;
  return () => {
    runningCheck ??= checkReadiness().finally(() => {
      runningCheck = undefined;
    });
    return runningCheck;
  };
}

const REACH_TIMEOUT_MS = 2_000;

/**
 * Creates the readiness check of a service that appends to the event log. The cause of a failure is logged but not
 * returned, because it contains hosts and ports.
 */
export function createEventStoreReadinessCheck(client: EventStoreDBClient, logger: Logger): Readiness {
  return async () => {
    try {
      await requireAppends(client);
      return { eventstore: null };
    } catch (error) {
      logger.warn({ error }, "not ready: the event log does not accept appends");
      return { eventstore: "unavailable" };
    }
  };
}

/** Checks that the log accepts appends, without writing: the leader refuses an append with an impossible revision. */
async function requireAppends(client: EventStoreDBClient): Promise<void> {
  const event = { id: randomUUID(), type: "Probed", contentType: "application/json", data: EMPTY, metadata: EMPTY };
  try {
    await appendEvents(client, "readiness", 2n ** 40n, [event], REACH_TIMEOUT_MS);
  } catch (error) {
    if (!(error instanceof UnexpectedRevisionError)) throw error;
  }
}

const EMPTY = new Uint8Array();
