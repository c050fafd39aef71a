import { describeLogPosition, type LogPosition } from "../../shared/eventstore/subscription.ts";
import { waitUnlessAborted } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { ItemError, StopError } from "../../shared/runtime/failures.ts";
import { getSafeMessage, type Logger } from "../../shared/runtime/logger.ts";
import {
  DIFFERENT_LOG,
  DifferentLogError,
  findLogDifference,
  type LogAndDatabase,
  requireSameLog,
} from "../checkpoints/same-log.ts";

/** One task of a projection process: update the read models, relay events, or deliver webhooks. */
export interface Role {
  name: LogRole;
  getStatus(): RoleStatus;
  stop(): Promise<void>;
}

/** Role with a position in the log, which can be behind the end of the log. */
export type LogRole = "projectors" | "relay" | "webhooks";

export interface RoleDeps extends LogAndDatabase {
  databaseUrl: string;
  logger: Logger;
}

/** Public description of a role's state. The description never contains event data or error messages. */
export type Detail =
  | "catching up"
  | "another process leads"
  | typeof OTHER_RELEASE
  | typeof DIFFERENT_LOG
  | `waits for ${AwaitedServer}`
  | "waits";

/** Server that the projectors wait for, as named in the projectors' status. */
export type AwaitedServer = "the database" | "the event log";

/** Error whose message may quote an event, so it appears only in logs and in the operator's status. */
export interface LastError {
  message: string;
  /** Milliseconds since 1970. */
  at: number;
}

export interface RoleStatus {
  /** `standby`: another process leads. `failed`: stopped until an operator removes the cause. */
  state: "starting" | "running" | "standby" | "failed";
  /**
   * Null while the role works. Also null after a failure at an event, because `failedAt` and `lastError` describe the
   * failure.
   */
  detail: Detail | null;
  isLeader: boolean;
  /** Absent for a role that does not read the log. */
  position?: bigint | undefined;
  /** Since the process started. */
  eventCount?: number | undefined;
  /** Kept even if the role has recovered. */
  lastError?: LastError | undefined;
  failedAt?: LogPosition | undefined;
}

export function toLastError(error: unknown): LastError {
  return { message: error instanceof Error ? getSafeMessage(error) : String(error), at: Date.now() };
}

/** The process no longer leads: another process moved the checkpoint, or the tables were replaced. */
export class LeadershipLostError extends StopError {
  override readonly name = "LeadershipLostError";
}

/** Reason in health reports and errors if another release built the read models. */
export const OTHER_RELEASE = "the read models belong to another release";

/** Failure that only an operator can resolve, in most cases an event that a projector cannot process. */
export class ProjectionError extends ItemError {
  override readonly name = "ProjectionError";
  /** Undefined if no event is the cause. */
  readonly failedEventPosition: LogPosition | undefined;
  /** The message without the position of the event. */
  readonly reason: string;

  constructor(reason: string, failedEventPosition: LogPosition | undefined, cause: unknown) {
    super(failedEventPosition ? `${describeLogPosition(failedEventPosition)}: ${reason}` : reason, { cause });
    this.reason = reason;
    if (!failedEventPosition) return;
    // The caller may pass a whole event. Only these fields are kept, because event data must not appear in logs and
    // statuses.
    const { position, stream, revision, type } = failedEventPosition;
    this.failedEventPosition = { position, stream, revision, type };
  }
}

interface RoleWork {
  run(): Promise<void>;
  /**
   * Returns true if the role can run again after a failure. If absent, the role runs again as soon as the log matches
   * the database.
   */
  canContinue?(failedStatus: RoleStatus): Promise<boolean>;
}

interface StatusAccess {
  getStatus(): RoleStatus;
  /** Replaces the status. Position, number of events and last error stay, unless the new status names them. */
  setStatus(status: RoleStatus): void;
}

const CHECK_INTERVAL_MS = 1_000;

/**
 * Starts a role, which runs until it is stopped. After a failure, the role has the state `failed` until it can run again.
 *
 * @param createWork receives the options with the role's own logger, and the signal that ends the work
 */
export function startRole<Options extends RoleDeps>(
  name: LogRole,
  options: Options,
  createWork: (options: Options, access: StatusAccess, signal: AbortSignal) => RoleWork,
): Role {
  const logger = options.logger.child({ role: name });
  const controller = new AbortController();
  const { signal } = controller;
  let status: RoleStatus = { state: "starting", detail: null, isLeader: false };
  const getStatus = () => status;
  const setStatus = (newStatus: RoleStatus) => {
    const { position, eventCount, lastError } = status;
    status = { position, eventCount, lastError, ...newStatus };
  };
  const { run, canContinue } = createWork({ ...options, logger }, { getStatus, setStatus }, signal);
  const hasSameLog = async () => (await findLogDifference(requireSameLog(options))) === undefined;
  const runPromise = (async () => {
    while (!signal.aborted) {
      try {
        await run();
      } catch (error) {
        if (signal.aborted) return;
        const detail = error instanceof DifferentLogError ? DIFFERENT_LOG : null;
        const failedAt = error instanceof ProjectionError ? error.failedEventPosition : undefined;
        setStatus({ state: "failed", detail, isLeader: false, lastError: toLastError(error), failedAt });
        logger.fatal({ error }, `${name} stopped`);
        const canRunAgain = () => (detail === null && canContinue ? canContinue(status) : hasSameLog());
        do {
          await pause(CHECK_INTERVAL_MS, signal);
        } while (!signal.aborted && !(await waitUnlessAborted(canRunAgain(), signal).catch(logFailure)));
        if (!signal.aborted) logger.info(`${name} retries`);
      }
    }
  })();
  return {
    name,
    getStatus,
    async stop() {
      controller.abort();
      await runPromise;
    },
  };

  function logFailure(error: unknown): void {
    logger.warn({ error }, "Cannot check whether the role can run again.");
  }
}
