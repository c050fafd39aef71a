import type pg from "pg";
import { formatCommandLine } from "../../shared/command-line/format-command-line.ts";
import { type LeadershipOptions, withLeadership } from "../../shared/postgres/leadership.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { readCheckpoint } from "../checkpoints/checkpoint.ts";
import { isConfirmed, readConfirmedTypes } from "../quarantine/confirmed-types.ts";
import {
  type Detail,
  LeadershipLostError,
  OTHER_RELEASE,
  type Role,
  type RoleDeps,
  startRole,
  toLastError,
} from "../roles/role.ts";
import { computeFingerprint } from "./ddl.ts";
import { runProjection } from "./projection.ts";
import type { ProjectionOptions, ProjectionProgress } from "./projection-options.ts";

export type ProjectorsOptions = RoleDeps & Pick<ProjectionOptions, "models" | "onBatch" | "dataKeys">;

/**
 * Starts the role that updates the read models. One process leads, and other processes stand by. If only an operator
 * can resolve a failure, for example if many streams fail with one event type, the role fails and skips no event. The
 * process then gives up the lead, so that a process with fixed code can continue. The role retries when an operator
 * confirms the event's type, or when another process moves the checkpoint.
 *
 * The role also fails if the read models were built from another log. It continues when log and read models match
 * again. While the read models belong to another release, the process stands by.
 */
export function startProjectors(projectorsOptions: ProjectorsOptions): Role {
  return startRole("projectors", projectorsOptions, (options, { getStatus, setStatus }, signal) => {
    const { client, pool, logger, models } = options;
    const lead = async (termSignal: AbortSignal) => {
      setStatus({ state: "starting", detail: null, isLeader: true });
      const { eventCount: eventCountBefore = 0 } = getStatus();
      const onProgress = ({ position, hasCaughtUp, waitsFor, lastError, eventCount }: ProjectionProgress) =>
        setStatus({
          // After the first catch-up, a later wait does not change the state back to "starting".
          state: getStatus().state === "running" || hasCaughtUp ? "running" : "starting",
          detail: waitsFor === null ? (hasCaughtUp ? null : "catching up") : (`waits for ${waitsFor}` as const),
          isLeader: true,
          position,
          eventCount: eventCountBefore + eventCount,
          ...(waitsFor !== null && lastError && { lastError: toLastError(lastError) }),
        });
      try {
        await runProjection({ ...options, schema: READ_MODEL_SCHEMA, onProgress }, termSignal);
      } catch (error) {
        if (!(error instanceof LeadershipLostError)) throw error;
        logger.warn(
          { error },
          "This process no longer leads: another process writes, or a rebuild replaced the read models.",
        );
      }
    };
    const leadership: LeadershipOptions<Detail> = {
      ...options,
      signal,
      name: `projectors ${READ_MODEL_SCHEMA}`,
      onStandby(detail) {
        if (detail === OTHER_RELEASE && getStatus().detail !== OTHER_RELEASE) logger.warn(STANDBY_MESSAGE);
        setStatus({ state: "standby", detail, isLeader: false });
      },
      async findObstacle(connection: pg.ClientBase) {
        const { fingerprint } = await readCheckpoint(connection, READ_MODEL_SCHEMA);
        return fingerprint === computeFingerprint(models) ? null : OTHER_RELEASE;
      },
    };
    return {
      run: () => withLeadership(leadership, lead),
      canContinue: async ({ failedAt, position }) =>
        (failedAt && isConfirmed(await readConfirmedTypes(client), failedAt)) ||
        (await readCheckpoint(pool, READ_MODEL_SCHEMA)).position !== position,
    };
  });
}

const STANDBY_MESSAGE = `The read models belong to another release. This process stands by and writes nothing. To switch to this release, run its \`${formatCommandLine("projection rebuild")}\`.`;
