import { describeLogPosition, type LogPosition } from "../../shared/eventstore/subscription.ts";
import type { Readiness } from "../../shared/http/health.ts";
import { ANOTHER_LEADS } from "../roles/leadership.ts";
import type { Detail, Role } from "../roles/role.ts";
import type { Reporter } from "./reporter.ts";

/**
 * Reports the readiness of each role. A role is ready if it works without waiting, or if it is a standby that can take over.
 * A standby of another release cannot, so it is not ready. Other roles get a text with the reason and their lag. The report
 * is public, so it contains no data of events and no error texts. Those are in the log and in the operator's status.
 */
export function readinessOf(roles: readonly Role[], reporter: Reporter): Readiness {
  return async () => Object.fromEntries(roles.map((role) => [role.name, problem(role, reporter)]));
}

function problem(role: Role, reporter: Reporter): string | null {
  const { state, detail, failedAt } = role.status();
  if (detail === ANOTHER_LEADS || (state === "running" && detail === null)) return null;
  const why = state === "failed" ? stopped(failedAt, detail) : (detail ?? state);
  return `${why}${behind(role.name, reporter)}`;
}

function stopped(at: LogPosition | undefined, detail: Detail | null): string {
  if (at) return `stopped at ${describeLogPosition(at)}, ${at.type}`;
  return detail ? `stopped: ${detail}` : "stopped";
}

function behind(role: string, reporter: Reporter): string {
  const { events, exact, seconds } = reporter.lagOf(role) ?? { events: 0, exact: true, seconds: 0 };
  if (events === 0) return "";
  return `; ${exact ? "" : "about "}${events} events and ${Math.round(seconds)} s behind`;
}
