/** One of the things that a projection process does: keep the read models, relay events, deliver webhooks. */
export interface Role {
  name: string;
  status(): RoleStatus;
  /** Stops taking work, finishes or gives back what it has. */
  stop(): Promise<void>;
}

export interface RoleStatus {
  /** `standby`: another process leads. `failed`: stopped for good, until an operator has seen to the cause. */
  state: "starting" | "running" | "standby" | "failed";
  /** What it waits for, or why it failed. */
  detail: string | null;
  /** How far it is in the event log. */
  position?: bigint;
}
