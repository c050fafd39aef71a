import { InvalidAppointmentError } from "../../../shared/domain/appointment/request.ts";
import type { DomainError } from "../../../shared/domain/domain-error.ts";
import type { Command } from "../framework/command.ts";

/** A problem with one field of a line. */
export interface FieldProblem {
  /** JSONPath (RFC 9535) within the line; `$` is the whole line. */
  field: string;
  reason: string;
}

/** A line of an import that was not applied. */
export interface LineFailure {
  /** Number of the line in the file, from 1. */
  line: number;
  /** `invalid` for a line that is not a valid command; else the code of the domain rule that refused the command. */
  code: string;
  problems: FieldProblem[];
  /** All problems as one text for people. */
  text: string;
}

/** The refused option, for codes that do not contain its name. */
const OPTION_OF_CODE: Record<string, string> = {
  allocation_empty: "until",
  expiry_without_demo: "demoExpiresAt",
  hold_ends_before_start: "endsAt",
  hold_expired: "expiresAt",
  not_an_administrator: "membership",
  rule_ends_before_start: "endsAt",
  rule_never_valid: "validUntil",
  time_not_in_future: "scheduledAt",
};

/**
 * Describes why a line's command was refused, and which fields are wrong. If no single field is wrong, as in an
 * illegal transition, the field is the id of the changed object.
 */
export function refusalOf(line: number, error: DomainError, command: Command): LineFailure {
  const { code, message } = error;
  const problems =
    error instanceof InvalidAppointmentError
      ? error.details.map((detail) => ({ field: fieldOf(detail.path, command), reason: detail.message }))
      : [{ field: jsonPath([optionOf(code, command)]), reason: message }];
  const said =
    error instanceof InvalidAppointmentError
      ? problems.map(({ field, reason }) => `${field.replace(/^\$\.?/, "")} ${reason}`).join("; ")
      : message;
  return { line, code, problems, text: `refused: ${said} (${code})` };
}

/** Converts a path of the domain to the path in the line: `resourceIds.1` becomes `resources[1]`. */
function fieldOf(path: string, { options }: Command): string {
  const [name = "", ...rest] = path.split(".");
  const option = [name, name.replace(/Id(s?)$/, "$1")].find((known) => known in options);
  return jsonPath(option === undefined ? [] : [option, ...rest.map(Number)]);
}

/** Finds the option that a code is about: `branch_not_found` is about `branch`, or about `id` in a branch command. */
function optionOf(code: string, { noun, options }: Command): string {
  const names = Object.keys(options);
  const exact = OPTION_OF_CODE[code];
  if (exact !== undefined && names.includes(exact)) return exact;
  const named = code
    .split("_")
    .filter((word) => word !== noun)
    .flatMap((word) => [word, `${word}s`])
    .find((word) => names.includes(word));
  return named ?? (names.includes("id") ? "id" : (names[0] ?? ""));
}

/** Writes a path as JSONPath: `$.scopes[0]`. */
export function jsonPath(path: readonly PropertyKey[]): string {
  const steps = path.map((step) => {
    if (typeof step === "number") return `[${step}]`;
    const name = String(step);
    return /^[A-Za-z_]\w*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
  });
  return `$${steps.join("")}`;
}
