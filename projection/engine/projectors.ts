import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { Role, RoleStatus } from "../role.ts";
import { LostLeadership, ProjectionFailure } from "./apply-batch.ts";
import { READ_MODEL_SCHEMA } from "./ddl.ts";
import { withLeadership } from "./leadership.ts";
import { type ProjectionProgress, runProjection } from "./projection.ts";
import type { AnyReadModel } from "./read-model.ts";

export interface ProjectorsOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  databaseUrl: string;
  models: readonly AnyReadModel[];
  logger: Logger;
  schema?: string;
}

/**
 * The role that keeps the read models: one process leads, others stand by. An event that a projector cannot take
 * fails the role, with the event's place; nothing is skipped.
 */
export function startProjectors(options: ProjectorsOptions): Role {
  const schema = options.schema ?? READ_MODEL_SCHEMA;
  const logger = options.logger.child({ role: "projectors" });
  const ended = new AbortController();
  let status: RoleStatus = { state: "starting", detail: null };
  const onProgress = ({ position, caughtUp, waitsFor }: ProjectionProgress) => {
    const detail = waitsFor === null ? (caughtUp ? null : "catching up") : `waits for ${waitsFor}`;
    // Once it has caught up it runs, and a later wait does not make it start anew.
    const started = status.state === "running" || caughtUp;
    status = { state: started ? "running" : "starting", detail, position };
  };
  const lead = async (signal: AbortSignal) => {
    status = { state: "starting", detail: null };
    try {
      await runProjection({ ...options, schema, logger, onProgress }, signal);
    } catch (error) {
      if (!(error instanceof LostLeadership)) throw error;
      logger.warn({ error }, "another process writes; standing by");
    }
  };
  const done = withLeadership(
    {
      databaseUrl: options.databaseUrl,
      name: `projectors ${schema}`,
      logger,
      signal: ended.signal,
      onStandby: (detail) => {
        status = { state: "standby", detail };
      },
    },
    lead,
  ).catch((error: unknown) => {
    const detail = error instanceof ProjectionFailure ? error.message : String(error);
    status = { ...status, state: "failed", detail };
    logger.fatal({ error }, "projectors stopped");
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
