import { InvalidAppointment } from "../../../shared/domain/appointment/request.ts";
import type { DomainError } from "../../../shared/domain/domain-error.ts";
import type { Command } from "../framework/command.ts";

/** What is wrong with one field of a line. */
export interface FieldProblem {
  /** JSONPath (RFC 9535) within the line; `$` is the whole line. */
  field: string;
  reason: string;
}

/** A line of an import that was not applied. */
export interface LineFailure {
  /** Number of the line in the file, from 1. */
  line: number;
  /** `invalid` for a line that cannot be read as a command; else the domain's code for the refusal. */
  code: string;
  problems: FieldProblem[];
  /** All problems as one text for people. */
  text: string;
}

/** Codes whose words do not name the option that is refused. */
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
 * Describes the refusal of a line's command, with the fields that it is refused for. A refusal that is not about one
 * field, such as an illegal transition, is about what the command changes.
 */
export function refusalOf(line: number, error: DomainError, command: Command): LineFailure {
  const { code, message } = error;
  const problems =
    error instanceof InvalidAppointment
      ? error.details.map((detail) => ({ field: fieldOf(detail.path, command), reason: detail.message }))
      : [{ field: jsonPath([optionOf(code, command)]), reason: message }];
  const said =
    error instanceof InvalidAppointment
      ? problems.map(({ field, reason }) => `${field.replace(/^\$\.?/, "")} ${reason}`).join("; ")
      : message;
  return { line, code, problems, text: `refused: ${said} (${code})` };
}

/** The domain's `resourceIds.1` is the import's `resources[1]`. */
function fieldOf(path: string, { options }: Command): string {
  const [name = "", ...rest] = path.split(".");
  const option = [name, name.replace(/Id(s?)$/, "$1")].find((known) => known in options);
  return jsonPath(option === undefined ? [] : [option, ...rest.map(Number)]);
}

/** `branch_not_found` is about the option `branch`, or about `id` if the command is one about branches. */
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
