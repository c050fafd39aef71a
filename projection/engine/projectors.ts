import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog } from "../../shared/eventstore/log.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { READ_MODEL_SCHEMA, readCheckpoint, readPosition } from "../checkpoints/checkpoint.ts";
import { leadWithRecovery } from "../parking/lead-with-recovery.ts";
import { readParked } from "../parking/parked-streams.ts";
import { LeadershipLostError, OTHER_RELEASE, ProjectionError } from "../roles/failure.ts";
import type { Detail, Role, RoleStatus } from "../roles/role.ts";
import { failed, kept, lastErrorNow } from "../roles/role-status.ts";
import { shapeOf } from "./ddl.ts";
import { runProjection } from "./projection.ts";
import type { ProjectionOptions, ProjectionProgress } from "./projection-options.ts";
import type { AnyReadModel } from "./read-model.ts";

export interface ProjectorsOptions extends Pick<ProjectionOptions, "onBatch"> {
  client: EventStoreDBClient;
  pool: pg.Pool;
  databaseUrl: string;
  models: readonly AnyReadModel[];
  logger: Logger;
}

/**
 * Starts the role that updates the read models. One process leads, others stand by. If a projector cannot process an
 * event, the role fails at that event and skips nothing. It then gives up the lead, so that a process with fixed code can
 * continue. It tries again when an operator parks the event's stream, or when another process moves the checkpoint.
 *
 * The role also fails if the read models were built from another log, until log and read models match again. While the
 * read models belong to another release, the process stands by.
 */
export function startProjectors(options: ProjectorsOptions): Role {
  const logger = options.logger.child({ role: "projectors" });
  const log = createEventLog(options.client);
  const ended = new AbortController();
  const { signal } = ended;
  let status: RoleStatus = { state: "starting", detail: null, leads: false };
  let eventsBefore = 0;

  const lead = async (term: AbortSignal) => {
    status = { ...kept(status), state: "starting", detail: null, leads: true };
    eventsBefore = status.events ?? 0;
    const onProgress = (progress: ProjectionProgress) => {
      status = statusAfter(status, progress, eventsBefore);
    };
    const parked = () => readParked(log);
    const run = { ...options, schema: READ_MODEL_SCHEMA, logger, parked, onProgress };
    await runUntilLost(run, logger, term);
  };
  const onStandby = (detail: Detail) => {
    if (detail === OTHER_RELEASE && status.detail !== OTHER_RELEASE) logger.warn(STANDS_BY);
    status = { ...kept(status), state: "standby", detail, leads: false };
  };
  const leadership = {
    ...{ databaseUrl: options.databaseUrl, name: `projectors ${READ_MODEL_SCHEMA}`, onStandby },
    async hindrance(connection: pg.ClientBase) {
      const { shape } = await readCheckpoint(connection, READ_MODEL_SCHEMA);
      return shape === shapeOf(options.models) ? null : OTHER_RELEASE;
    },
  };
  const onFailure = (error: unknown) => {
    const place = error instanceof ProjectionError ? error.place : undefined;
    status = failed(status, error, place);
    return { place, hasMoved: movedFrom(options.pool, status.position) };
  };
  const done = leadWithRecovery({
    ...{ ...options, logger, signal, role: "projectors", leadership, lead, onFailure },
  });
  return {
    name: "projectors",
    status: () => status,
    async stop() {
      ended.abort();
      await done;
    },
  };
}

const STANDS_BY =
  "The read models belong to another release. This process stands by and writes nothing. To switch to this release, run its `npm run projection -- rebuild`.";

/** Runs the projection. If another process writes, it returns: that is not a failure. */
async function runUntilLost(run: ProjectionOptions, logger: Logger, term: AbortSignal): Promise<void> {
  try {
    await runProjection(run, term);
  } catch (error) {
    if (!(error instanceof LeadershipLostError)) throw error;
    logger.warn(
      { error },
      "This process no longer leads: another process writes, or a rebuild replaced the read models.",
    );
  }
}

/** Creates a check whether the read models have moved from a position. If undefined, the first check sets the position. */
function movedFrom(pool: pg.Pool, position: bigint | undefined): () => Promise<boolean> {
  let before = position;
  return async () => {
    const now = await readPosition(pool, READ_MODEL_SCHEMA);
    before ??= now;
    return now !== before;
  };
}

/** @param eventsBefore events processed in earlier terms */
function statusAfter(before: RoleStatus, progress: ProjectionProgress, eventsBefore: number): RoleStatus {
  const { position, caughtUp, waitsFor, lastError, events } = progress;
  const detail = waitsFor === null ? (caughtUp ? null : "catching up") : (`waits for ${waitsFor}` as const);
  // After the first catch-up, a later wait does not change the state back to "starting".
  const state = before.state === "running" || caughtUp ? "running" : "starting";
  const reported = waitsFor !== null && lastError ? lastErrorNow(lastError) : before.lastError;
  return {
    ...{ state, detail, leads: true, position, events: eventsBefore + events },
    ...(reported && { lastError: reported }),
  };
}
