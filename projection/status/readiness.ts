import { describeLogPosition, type LogPosition } from "../../shared/eventstore/subscription.ts";
import type { Readiness } from "../../shared/http/health.ts";
import { ANOTHER_PROCESS_LEADS } from "../roles/leadership.ts";
import type { Detail, Role } from "../roles/role.ts";
import type { Reporter } from "./reporter.ts";

/**
 * Creates the check that reports the readiness of each role. A role is ready if it works without waiting, or if it is
 * on standby and can take over. A standby process of another release cannot take over, so its role is not ready. For a
 * role that is not ready, the report contains the reason and the lag. The report is public, so it contains no event
 * data and no error messages.
 */
export function createReadinessCheck(roles: readonly Role[], reporter: Reporter): Readiness {
  return async () => Object.fromEntries(roles.map((role) => [role.name, describeProblem(role, reporter)]));
}

/** @returns null if the role is ready */
function describeProblem(role: Role, reporter: Reporter): string | null {
  const { state, detail, failedAt } = role.getStatus();
  if (detail === ANOTHER_PROCESS_LEADS || (state === "running" && detail === null)) return null;
  const reason = state === "failed" ? describeStop(failedAt, detail) : (detail ?? state);
  return `${reason}${describeLag(role.name, reporter)}`;
}

function describeStop(failedAt: LogPosition | undefined, detail: Detail | null): string {
  if (failedAt) return `stopped at ${describeLogPosition(failedAt)}, ${failedAt.type}`;
  return detail ? `stopped: ${detail}` : "stopped";
}

function describeLag(role: string, reporter: Reporter): string {
  const { events, exact, seconds } = reporter.getLag(role) ?? { events: 0, exact: true, seconds: 0 };
  if (events === 0) return "";
  return `; ${exact ? "" : "about "}${events} events and ${Math.round(seconds)} s behind`;
}
