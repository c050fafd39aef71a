import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { getSafeMessage, type Logger } from "../../shared/runtime/logger.ts";
import { DIFFERENT_LOG, DifferentLogError, type LogAndDatabase } from "../checkpoints/same-log.ts";
import type { OTHER_RELEASE } from "./failure.ts";

/** One task of a projection process: update the read models, relay events, or deliver webhooks. */
export interface Role {
  name: string;
  getStatus(): RoleStatus;
  stop(): Promise<void>;
}

/** Role that reads the event log and can be behind the end of the log. */
export type LogRole = "projectors" | "relay";

export interface RoleDeps extends LogAndDatabase {
  databaseUrl: string;
  logger: Logger;
}

/** Public description of a role's state. It never contains event data or error messages. */
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

export interface JetStreamBacklog {
  /** Not yet received by a dispatcher. */
  pendingCount: number;
  /** Received by a dispatcher. */
  unacknowledgedCount: number;
}

export interface RoleStatus {
  /** `standby`: another process leads. `failed`: stopped until an operator removes the cause. */
  state: "starting" | "running" | "standby" | "failed";
  /**
   * Null while the role works. Also null after a failure at an event, because `failedAt` and `lastError` describe the
   * failure.
   */
  detail: Detail | null;
  /** Absent for a role without a leader. */
  isLeader?: boolean;
  /** Absent for a role that does not read the log. */
  position?: bigint | undefined;
  /** Since the process started. */
  eventCount?: number | undefined;
  /** Present only while this process relays events. */
  backlog?: JetStreamBacklog | undefined;
  /** Kept even if the role has recovered. */
  lastError?: LastError | undefined;
  failedAt?: LogPosition | undefined;
}

/** Returns the fields of a status that stay valid when the process gives up the lead. */
export function pickLastingFields({ position, eventCount, lastError }: RoleStatus): Partial<RoleStatus> {
  return { position, eventCount, lastError };
}

export function toFailedStatus(statusBefore: RoleStatus, error: unknown, failedAt?: LogPosition): RoleStatus {
  const detail = error instanceof DifferentLogError ? DIFFERENT_LOG : null;
  return {
    ...pickLastingFields(statusBefore),
    state: "failed",
    detail,
    isLeader: false,
    lastError: toLastError(error),
    failedAt,
  };
}

export function toLastError(error: unknown): LastError {
  return { message: error instanceof Error ? getSafeMessage(error) : String(error), at: Date.now() };
}
