import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import type { DIFFERENT_LOG } from "../checkpoints/same-log.ts";
import type { OTHER_RELEASE } from "./failure.ts";

/** One of the things that a projection process does: keep the read models, relay events, deliver webhooks. */
export interface Role {
  name: string;
  status(): RoleStatus;
  /** Stops taking work, finishes or gives back what it has. */
  stop(): Promise<void>;
}

/** What a role is about, or waits for, in words that hold nothing of an event or an error: anybody may read them. */
export type Detail =
  | "catching up"
  | "another process leads"
  | "the database is out of reach"
  | typeof OTHER_RELEASE
  | typeof DIFFERENT_LOG
  | `waits for ${AwaitedServer}`
  | "waits";

/** What projectors can name that they wait for. */
export type AwaitedServer = "the database" | "the event log";

/** What kept a role from working. Its text may quote an event: it is for the log file and the operator's status. */
export interface LastError {
  message: string;
  /** Milliseconds since 1970. */
  at: number;
}

export interface RoleStatus {
  /** `standby`: another process leads. `failed`: stopped, until an operator has seen to the cause. */
  state: "starting" | "running" | "standby" | "failed";
  /** Null while it works. If it failed at an event, null too: `failedAt` and `lastError` say why. */
  detail: Detail | null;
  /** Whether this process leads the role; absent for a role that any number of processes do at once. */
  leads?: boolean;
  /** How far it is in the event log; absent for a role that does not follow it. */
  position?: bigint;
  /** Events of the log that it has taken since the process started. */
  events?: number;
  /** What last kept it from working, whether or not it does so still. */
  lastError?: LastError;
  /** The event that it cannot get past. */
  failedAt?: LogPosition;
}
