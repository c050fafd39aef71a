import { InvalidAppointmentError } from "../../../shared/domain/appointment/request.ts";
import type { DomainError } from "../../../shared/domain/domain-error.ts";
import type { DomainCommand } from "../domain-command.ts";

/** A problem with one field of an imported line. */
export interface FieldProblem {
  /** JSONPath (RFC 9535) of the field within the line; `$` is the whole line. */
  field: string;
  reason: string;
}

/** A line of an import that was not applied, with the reasons. */
export interface LineFailure {
  /** Number of the line in the file, from 1. */
  line: number;
  /** Code of the domain rule that refused the command; `invalid` if the line is not a valid command. */
  code: string;
  problems: FieldProblem[];
  /** All problems as one human-readable text. */
  text: string;
}

/** Option that was refused, by error code. Contains only codes that do not include the name of the option. */
const OPTION_BY_CODE: Record<string, string> = {
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
 * Describes why a line's command was refused, and which fields are invalid. If no single field is invalid, for example
 * in an illegal status transition, the problem names the id of the changed object.
 */
export function describeRefusal(line: number, error: DomainError, command: DomainCommand): LineFailure {
  const { code, message } = error;
  const problems =
    error instanceof InvalidAppointmentError
      ? error.details.map((detail) => ({ field: toFieldPath(detail.path, command), reason: detail.message }))
      : [{ field: formatJsonPath([findOptionName(code, command)]), reason: message }];
  const reasonText =
    error instanceof InvalidAppointmentError
      ? problems.map(({ field, reason }) => `${field.replace(/^\$\.?/, "")} ${reason}`).join("; ")
      : message;
  return { line, code, problems, text: `refused: ${reasonText} (${code})` };
}

/** Converts the path of a field in the domain to its JSONPath in the line: `resourceIds.1` becomes `$.resources[1]`. */
function toFieldPath(path: string, { options }: DomainCommand): string {
  const [name = "", ...indexes] = path.split(".");
  const option = [name, name.replace(/Id(s?)$/, "$1")].find((optionName) => optionName in options);
  return formatJsonPath(option === undefined ? [] : [option, ...indexes.map(Number)]);
}

/** Finds the option for an error code. For `branch_not_found`, this is `branch`, or `id` in a branch command. */
function findOptionName(code: string, { name, options }: DomainCommand): string {
  const optionNames = Object.keys(options);
  const listedOption = OPTION_BY_CODE[code];
  if (listedOption !== undefined && optionNames.includes(listedOption)) return listedOption;
  const namedOption = code
    .split("_")
    .filter((word) => !name.startsWith(`${word} `))
    .flatMap((word) => [word, `${word}s`])
    .find((word) => optionNames.includes(word));
  return namedOption ?? (optionNames.includes("id") ? "id" : (optionNames[0] ?? ""));
}

/** Formats a path as JSONPath, such as `$.scopes[0]`. */
export function formatJsonPath(path: readonly PropertyKey[]): string {
  const segments = path.map((segment) => {
    if (typeof segment === "number") return `[${segment}]`;
    const name = String(segment);
    return /^[A-Za-z_]\w*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
  });
  return `$${segments.join("")}`;
}
