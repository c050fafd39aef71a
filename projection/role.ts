import type { Place } from "../shared/eventstore/subscription.ts";

/** One of the things that a projection process does: keep the read models, relay events, deliver webhooks. */
export interface Role {
  name: string;
  status(): RoleStatus;
  /** Stops taking work, finishes or gives back what it has. */
  stop(): Promise<void>;
}

export interface RoleStatus {
  /** `standby`: another process leads. `failed`: stopped, until an operator has seen to the cause. */
  state: "starting" | "running" | "standby" | "failed";
  /** What it waits for, or why it failed. */
  detail: string | null;
  /** How far it is in the event log; absent for a role that does not follow it. */
  position?: bigint;
  /** Events of the log that it has taken since the process started. */
  events?: number;
  /** Of types that the catalog does not know, passed over. */
  unknownEvents?: number;
  /** What last kept it from working, whether or not it does so still. */
  lastError?: { message: string; at: number };
  /** The event that it cannot get past. */
  failedAt?: Place;
}
