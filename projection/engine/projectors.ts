import type pg from "pg";
import { formatCommandLine } from "../../shared/command-line/format-command-line.ts";
import { type LeadershipOptions, withLeadership } from "../../shared/postgres/leadership.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { readCheckpoint } from "../checkpoints/checkpoint.ts";
import { DifferentLogError } from "../checkpoints/same-log.ts";
import { isConfirmed, readConfirmedTypes } from "../quarantine/confirmed-types.ts";
import {
  type Detail,
  LeadershipLostError,
  OTHER_RELEASE,
  ProjectionError,
  pickLastingFields,
  type Role,
  type RoleDeps,
  type RoleStatus,
  runWithRecovery,
  toFailedStatus,
  toLastError,
} from "../roles/role.ts";
import { computeFingerprint } from "./ddl.ts";
import { runProjection } from "./projection.ts";
import type { ProjectionOptions, ProjectionProgress } from "./projection-options.ts";

export type ProjectorsOptions = RoleDeps & Pick<ProjectionOptions, "models" | "onBatch" | "dataKeys">;

/**
 * Starts the role that updates the read models. One process leads, and the others stand by. If a failure needs an
 * operator, for example because many streams fail with one event type, the role fails at that event and skips nothing.
 * The process then gives up the lead, so that a process with fixed code can continue. The role retries when an operator
 * confirms the event's type, or when another process moves the checkpoint.
 *
 * The role also fails if the read models were built from another log. It continues when log and read models match
 * again. While the read models belong to another release, the process stands by.
 */
export function startProjectors(options: ProjectorsOptions): Role {
  const logger = options.logger.child({ role: "projectors" });
  const stopController = new AbortController();
  const { signal } = stopController;
  let status: RoleStatus = { state: "starting", detail: null, isLeader: false };
  const setStatus = (newStatus: RoleStatus) => {
    status = { ...pickLastingFields(status), ...newStatus };
  };

  const lead = async (termSignal: AbortSignal) => {
    setStatus({ state: "starting", detail: null, isLeader: true });
    const { eventCount: eventCountBefore = 0 } = status;
    const onProgress = ({ position, hasCaughtUp, waitsFor, lastError, eventCount }: ProjectionProgress) =>
      setStatus({
        // After the first catch-up, a later wait does not change the state back to "starting".
        state: status.state === "running" || hasCaughtUp ? "running" : "starting",
        detail: waitsFor === null ? (hasCaughtUp ? null : "catching up") : (`waits for ${waitsFor}` as const),
        isLeader: true,
        position,
        eventCount: eventCountBefore + eventCount,
        ...(waitsFor !== null && lastError && { lastError: toLastError(lastError) }),
      });
    try {
      await runProjection({ ...options, schema: READ_MODEL_SCHEMA, logger, onProgress }, termSignal);
    } catch (error) {
      if (!(error instanceof LeadershipLostError)) throw error;
      logger.warn(
        { error },
        "This process no longer leads: another process writes, or a rebuild replaced the read models.",
      );
    }
  };
  const onStandby = (standbyReason: Detail) => {
    if (standbyReason === OTHER_RELEASE && status.detail !== OTHER_RELEASE) logger.warn(STANDBY_MESSAGE);
    setStatus({ state: "standby", detail: standbyReason, isLeader: false });
  };
  const leadership = {
    ...options,
    logger,
    signal,
    name: `projectors ${READ_MODEL_SCHEMA}`,
    onStandby,
    async findObstacle(connection: pg.ClientBase) {
      const { fingerprint } = await readCheckpoint(connection, READ_MODEL_SCHEMA);
      return fingerprint === computeFingerprint(options.models) ? null : OTHER_RELEASE;
    },
  } satisfies LeadershipOptions<Detail>;
  const onFailure = (error: unknown) => {
    const failedEventPosition = error instanceof ProjectionError ? error.failedEventPosition : undefined;
    status = toFailedStatus(status, error, failedEventPosition);
    if (error instanceof DifferentLogError) return undefined;
    const { position } = status;
    return async () =>
      (failedEventPosition && isConfirmed(await readConfirmedTypes(options.client), failedEventPosition)) ||
      (await readCheckpoint(options.pool, READ_MODEL_SCHEMA)).position !== position;
  };
  const role = "projectors";
  const run = () => withLeadership(leadership, lead);
  const runPromise = runWithRecovery({ ...options, logger, signal, role, run, onFailure });
  return {
    name: role,
    getStatus: () => status,
    async stop() {
      stopController.abort();
      await runPromise;
    },
  };
}

const STANDBY_MESSAGE = `The read models belong to another release. This process stands by and writes nothing. To switch to this release, run its \`${formatCommandLine("projection rebuild")}\`.`;
