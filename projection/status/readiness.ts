import type { Readiness } from "../../shared/http/health.ts";
import { ANOTHER_LEADS } from "../engine/leadership.ts";
import type { Role } from "../role.ts";
import type { Reporter } from "./reporter.ts";

/**
 * Whether each role does its work: one that runs and waits for nothing is ready, and so is a standby, since another
 * process leads. Of the others it says why not, and how far behind they are.
 */
export function readinessOf(roles: readonly Role[], reporter: Reporter): Readiness {
  return async () => Object.fromEntries(roles.map((role) => [role.name, problem(role, reporter)]));
}

function problem(role: Role, reporter: Reporter): string | null {
  const { state, detail } = role.status();
  const ready = detail === ANOTHER_LEADS || (state === "running" && detail === null);
  return ready ? null : `${detail ?? state}${behind(role.name, reporter)}`;
}

function behind(role: string, reporter: Reporter): string {
  const { events, exact, seconds } = reporter.lagOf(role) ?? { events: 0, exact: true, seconds: 0 };
  if (events === 0) return "";
  return `; ${exact ? "" : "about "}${events} events and ${Math.round(seconds)} s behind`;
}
