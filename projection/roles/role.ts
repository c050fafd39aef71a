import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import type { DIFFERENT_LOG } from "../checkpoints/same-log.ts";
import type { OTHER_RELEASE } from "./failure.ts";

/** One task of a projection process: update the read models, relay events, or deliver webhooks. */
export interface Role {
  name: string;
  status(): RoleStatus;
  /** Takes no more work, and finishes or releases its current work. */
  stop(): Promise<void>;
}

/** Public text about the state of a role. It never contains data of an event or text of an error. */
export type Detail =
  | "catching up"
  | "another process leads"
  | "the database is unavailable"
  | typeof OTHER_RELEASE
  | typeof DIFFERENT_LOG
  | `waits for ${AwaitedServer}`
  | "waits";

/** Servers that projectors wait for by name. */
export type AwaitedServer = "the database" | "the event log";

/** Last error of a role. Its text may quote an event, so only logs and the operator's status show it. */
export interface LastError {
  message: string;
  /** Milliseconds since 1970. */
  at: number;
}

export interface RoleStatus {
  /** `standby`: another process leads. `failed`: stopped until an operator removes the cause. */
  state: "starting" | "running" | "standby" | "failed";
  /** Null while the role works, and if it failed at an event: then see `failedAt` and `lastError`. */
  detail: Detail | null;
  /** True if this process leads the role. Absent for a role without a leader. */
  leads?: boolean;
  /** Position in the event log. Absent for a role that does not read the log. */
  position?: bigint;
  /** Events that the role has read since the process started. */
  events?: number;
  /** Last error, even if the role has recovered from it. */
  lastError?: LastError;
  /** Event at which the role failed. */
  failedAt?: LogPosition;
}
