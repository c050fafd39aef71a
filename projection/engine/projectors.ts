import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { type Logger, safeMessage } from "../../shared/runtime/logger.ts";
import { readParked } from "../parking/parked-streams.ts";
import { untilParked } from "../parking/until-parked.ts";
import type { Role, RoleStatus } from "../role.ts";
import { readCheckpoint } from "./checkpoint.ts";
import { READ_MODEL_SCHEMA } from "./ddl.ts";
import { LostLeadership, ProjectionFailure } from "./failure.ts";
import { withLeadership } from "./leadership.ts";
import { type ProjectionOptions, type ProjectionProgress, runProjection } from "./projection.ts";
import type { AnyReadModel } from "./read-model.ts";

export interface ProjectorsOptions extends Pick<ProjectionOptions, "onBatch" | "onUnknown"> {
  client: EventStoreDBClient;
  pool: pg.Pool;
  databaseUrl: string;
  models: readonly AnyReadModel[];
  logger: Logger;
}

/**
 * The role that keeps the read models: one process leads, others stand by. An event that a projector cannot take
 * fails the role, with the event's place, and nothing is skipped. It gives up the lead then, so that a process with
 * mended code can go on; it tries again itself when an operator has parked the event's stream, or when the read
 * models have come past the place by another's doing.
 */
export function startProjectors(options: ProjectorsOptions): Role {
  const logger = options.logger.child({ role: "projectors" });
  const log = createEventLog(options.client);
  const parked = () => readParked(log);
  const ended = new AbortController();
  const { signal } = ended;
  let status: RoleStatus = { state: "starting", detail: null };
  let [eventsBefore, unknownEvents] = [0, 0];
  const onUnknown = (type: string) => {
    unknownEvents += 1;
    options.onUnknown?.(type);
  };

  const lead = async (term: AbortSignal) => {
    status = { ...kept(status), state: "starting", detail: null };
    eventsBefore = status.events ?? 0;
    const onProgress = (progress: ProjectionProgress) => {
      status = statusAfter(status, progress, eventsBefore);
    };
    try {
      const run = { ...options, schema: READ_MODEL_SCHEMA, logger, parked, onProgress, onUnknown };
      await runProjection(run, term);
    } catch (error) {
      if (!(error instanceof LostLeadership)) throw error;
      logger.warn({ error }, "another process writes, or a rebuild has put new read models in place");
    }
  };
  const onStandby = (detail: string) => {
    status = { ...kept(status), state: "standby", detail };
  };
  const leadership = { databaseUrl: options.databaseUrl, name: `projectors ${READ_MODEL_SCHEMA}` };
  const done = (async () => {
    while (!signal.aborted) {
      try {
        await withLeadership({ ...leadership, logger, signal, onStandby }, lead);
      } catch (error) {
        status = failed(status, error);
        logger.fatal({ error }, "projectors stopped");
        let stood = status.position;
        const hasMoved = async () => {
          const stands = await readCheckpoint(options.pool, READ_MODEL_SCHEMA);
          stood ??= stands;
          return stands !== stood;
        };
        await untilParked({ log, place: status.failedAt, orElse: hasMoved, logger }, signal);
        if (!signal.aborted) logger.info("projectors try again");
      }
    }
  })();
  return {
    name: "projectors",
    status: () => ({ ...status, unknownEvents }),
    async stop() {
      ended.abort();
      await done;
    },
  };
}

/** What one term's end does not wipe away. */
function kept({ position, events, lastError }: RoleStatus): Partial<RoleStatus> {
  return {
    ...(position !== undefined && { position }),
    ...(events && { events }),
    ...(lastError && { lastError }),
  };
}

function statusAfter(before: RoleStatus, progress: ProjectionProgress, eventsBefore: number): RoleStatus {
  const { position, caughtUp, waitsFor, trouble, events } = progress;
  const detail = waitsFor === null ? (caughtUp ? null : "catching up") : `waits for ${waitsFor}`;
  // Once it has caught up it runs, and a later wait does not make it start anew.
  const state = before.state === "running" || caughtUp ? "running" : "starting";
  const lastError = waitsFor !== null && trouble ? errorNow(trouble) : before.lastError;
  return { state, detail, position, events: eventsBefore + events, ...(lastError && { lastError }) };
}

function failed(before: RoleStatus, error: unknown): RoleStatus {
  const place = error instanceof ProjectionFailure ? error.place : undefined;
  const lastError = errorNow(error);
  return {
    ...kept(before),
    ...{ state: "failed", detail: lastError.message, lastError },
    ...(place && { failedAt: place }),
  };
}

function errorNow(error: unknown): { message: string; at: number } {
  return { message: error instanceof Error ? safeMessage(error) : String(error), at: Date.now() };
}
