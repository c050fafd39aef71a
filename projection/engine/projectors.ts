import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog } from "../../shared/eventstore/log.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { readParked } from "../parking/parked-streams.ts";
import { untilParked } from "../parking/until-parked.ts";
import type { Detail, Role, RoleStatus } from "../role.ts";
import { readCheckpoint } from "./checkpoint.ts";
import { READ_MODEL_SCHEMA } from "./ddl.ts";
import { LostLeadership } from "./failure.ts";
import { withLeadership } from "./leadership.ts";
import { type ProjectionOptions, type ProjectionProgress, runProjection } from "./projection.ts";
import { failed, kept, statusAfter } from "./projectors-status.ts";
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
    const parked = () => readParked(log);
    const run = { ...options, schema: READ_MODEL_SCHEMA, logger, parked, onProgress, onUnknown };
    await runUntilLost(run, logger, term);
  };
  const onStandby = (detail: Detail) => {
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
        const orElse = movedFrom(options.pool, status.position);
        await untilParked({ log, by: "projectors", place: status.failedAt, orElse, logger }, signal);
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

/** Another process that writes ends the term, and is no failure. */
async function runUntilLost(run: ProjectionOptions, logger: Logger, term: AbortSignal): Promise<void> {
  try {
    await runProjection(run, term);
  } catch (error) {
    if (!(error instanceof LostLeadership)) throw error;
    logger.warn({ error }, "another process writes, or a rebuild has put new read models in place");
  }
}

/** Whether the read models have come away from a position: where that is unknown, from where they are first found. */
function movedFrom(pool: pg.Pool, position: bigint | undefined): () => Promise<boolean> {
  let stood = position;
  return async () => {
    const stands = await readCheckpoint(pool, READ_MODEL_SCHEMA);
    stood ??= stands;
    return stands !== stood;
  };
}
