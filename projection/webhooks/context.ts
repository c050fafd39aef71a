import type { EventLog } from "../../shared/eventstore/log.ts";
import type { Notifier } from "../../shared/runtime/backoff.ts";
import type { Loop } from "../../shared/runtime/work.ts";
import type { NatsSettings } from "../relay/nats-settings.ts";
import type { RoleDeps } from "../roles/role.ts";
import type { ClosedStatus } from "./record/close-deliveries.ts";
import type { DueEndpoint } from "./schedule/schedule.ts";
import type { AttemptOptions } from "./send/attempt-delivery.ts";

export interface WebhooksOptions extends RoleDeps, Omit<AttemptOptions, "connections"> {
  nats: NatsSettings;
  /** Seconds before each retry. */
  retryScheduleSeconds: readonly number[];
  log: EventLog;
  /**
   * Called for each recorded attempt, with the new status of its delivery (delivered, pending or failed) and the
   * duration of the attempt in seconds.
   */
  onAttempt?(outcome: string, seconds: number): void;
  /** Called with the number of pending deliveries that the role has closed without sending them. */
  onClosed?(status: ClosedStatus, deliveryCount: number): void;
  /** URL of an HTTP proxy for all destinations except loopback addresses. If undefined, connections are direct. */
  egressProxyUrl?: string | undefined;
  /** Milliseconds since 1970. */
  clock?: () => number;
  /** Returns a random number from 0 inclusive to 1 exclusive. */
  random?: () => number;
}

export type LogContext = Pick<WebhooksOptions, "client" | "pool" | "log" | "logger">;

/** The options of the role, and what its parts share. */
export interface WebhooksContext extends WebhooksOptions, AttemptOptions {
  clock(): number;
  random(): number;
  createLoop(name: string): Loop;
  /** Called with endpoints that have due deliveries. */
  onDue(endpoints: readonly DueEndpoint[]): void;
  /** Starts a search for due deliveries. */
  searchNotifier: Notifier;
  /** Starts a search for replays. */
  replayNotifier: Notifier;
}
