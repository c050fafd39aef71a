import { hash } from "node:crypto";
import { formatProblems } from "../../../shared/command-line/option.ts";
import { InvalidAppointmentError } from "../../../shared/domain/appointment/request.ts";
import type { DomainError } from "../../../shared/domain/domain-error.ts";
import { findJsonError } from "../../../shared/domain/validation/json-error.ts";
import { findJsonLoss } from "../../../shared/domain/validation/json-loss.ts";
import { domainCommands } from "../commands/domain-commands.ts";
import type { DomainCommand, PreparedCommand } from "../domain-command.ts";

/** Namespace of the ids that are derived from lines and files. Must never change. */
const ID_NAMESPACE = "d8a1f6f2-5b0d-4b6e-9c3a-2f7e1c9b4a60";

const NAMESPACE_BYTES = Buffer.from(ID_NAMESPACE.replaceAll("-", ""), "hex");

export interface CommandLine {
  command: DomainCommand;
  preparedCommand: PreparedCommand;
}

export interface InvalidLine {
  reason: string;
  problems: FieldProblem[];
  /** Id of the object that the line would change; undefined if the line does not name the object. */
  changedId: string | undefined;
}

const importableCommands = new Map(
  domainCommands.filter(({ isImportable }) => isImportable).map((command) => [command.name, command]),
);

const MAX_PROBLEMS = 20;

/** Parses a line of an import: `{"command": "customer register", "id": …, …}`. Every id is required. */
export function parseLine(text: string): CommandLine | InvalidLine {
  const value = parseJson(text);
  if (value === undefined) return createInvalidLine(`is not valid JSON at column ${(findJsonError(text) ?? 0) + 1}`);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return createInvalidLine("is not a JSON object");
  const { number, repeatedName } = findJsonLoss(text) ?? {};
  if (number !== undefined)
    return createInvalidLine(`contains the number ${number.slice(0, 60)}, which cannot be stored exactly`);
  if (repeatedName !== undefined)
    return createInvalidLine(`contains ${JSON.stringify(repeatedName.slice(0, 60))} more than once in one object`);
  const { command: name, ...givenValues } = value as Record<string, unknown>;
  if (name === undefined) return createInvalidCommandLine("is missing");
  const command = typeof name === "string" ? importableCommands.get(name) : undefined;
  if (!command) return createInvalidCommandLine(`${describeName(name)} cannot be imported; see \`import --help\``);
  const checkResult = command.check(givenValues, false);
  if ("prepared" in checkResult) return { command, preparedCommand: checkResult.prepared };
  const listedProblems = checkResult.problems.slice(0, MAX_PROBLEMS);
  const unlistedCount = checkResult.problems.length - listedProblems.length;
  const problems = listedProblems.map(({ path, message }) => ({ field: formatJsonPath(path), reason: message }));
  let reason = formatProblems(listedProblems, (option) => option);
  if (unlistedCount > 0) {
    problems.push({ field: formatJsonPath([]), reason: `has ${unlistedCount} more problems` });
    reason += `; and ${unlistedCount} more problems`;
  }
  return { reason, problems, changedId: checkResult.changedId };
}

export function createInvalidLine(reason: string): InvalidLine {
  return { reason, problems: [{ field: formatJsonPath([]), reason }], changedId: undefined };
}

function createInvalidCommandLine(reason: string): InvalidLine {
  const problems = [{ field: formatJsonPath(["command"]), reason }];
  return { reason: `command ${reason}`, problems, changedId: undefined };
}

function describeName(name: unknown): string {
  return typeof name === "string" ? JSON.stringify(name.slice(0, 60)) : "is not a string and";
}

/**
 * Creates a function that derives the id of a line from its content, so that a repeated import recognizes its lines in
 * any order. The order of the options does not matter. Lines with equal content get different ids. The function returns
 * undefined for a line that is not a command.
 */
export function createLineIdGenerator(): (text: string) => string | undefined {
  const countById = new Map<string, number>();
  return (text) => {
    const contentKey = readContentKey(text);
    if (contentKey === undefined) return undefined;
    const id = deriveId(contentKey);
    const earlierCount = countById.get(id) ?? 0;
    countById.set(id, earlierCount + 1);
    return earlierCount === 0 ? id : deriveId(`${contentKey}\n${earlierCount}`);
  };
}

function readContentKey(text: string): string | undefined {
  try {
    const { command, ...values } = JSON.parse(text);
    return JSON.stringify([command, ...Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1))]);
  } catch {
    return undefined; // The text is not JSON, or has too many levels.
  }
}

/** Derives the id of an import from the digest of its file. */
export function deriveImportId(digest: string): string {
  return deriveId(digest);
}

/** Returns true for the id of a line of any import. The ids of other commands are random. */
export function isLineId(id: string): boolean {
  return id[14] === "5";
}

/** Derives a UUID of version 5 (RFC 9562) from a text. For long texts, this is faster than the package `uuid`. */
function deriveId(text: string): string {
  const digits = hash("sha1", Buffer.concat([NAMESPACE_BYTES, Buffer.from(text)]));
  const variantDigit = "89ab"[Number.parseInt(digits.charAt(16), 16) % 4];
  const parts = [
    digits.slice(0, 8),
    digits.slice(8, 12),
    `5${digits.slice(13, 16)}`,
    variantDigit + digits.slice(17, 20),
  ];
  // An import keeps the ids of all lines. The text of a template would need 300 bytes more, because it keeps its parts.
  return [...parts, digits.slice(20, 32)].join("-");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

interface FieldProblem {
  /** JSONPath (RFC 9535) of the field within the line; `$` is the whole line. */
  field: string;
  reason: string;
}

export interface LineFailure {
  line: number;
  /**
   * Code of the domain rule that refused the command, `invalid` if the line is not a valid command, or
   * `unexpected_error`.
   */
  code: string;
  problems: FieldProblem[];
  text: string;
}

/** Option that was refused, by error code. Contains only codes that do not include the name of the option. */
const OPTION_BY_CODE: Record<string, string> = {
  allocation_empty: "until",
  allocation_too_long: "until",
  expiry_without_demo: "demoExpiresAt",
  hold_ends_before_start: "endsAt",
  hold_expired: "expiresAt",
  not_an_administrator: "membership",
  rule_ends_before_start: "endsAt",
  rule_never_valid: "validUntil",
  time_not_in_future: "scheduledAt",
};

/** Describes an error for which neither a rule nor a server is responsible. */
export function describeUnexpectedError(line: number, error: unknown): LineFailure {
  const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const problems = [{ field: formatJsonPath([]), reason }];
  return { line, code: "unexpected_error", problems, text: `failed unexpectedly: ${reason}` };
}

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
function formatJsonPath(path: readonly PropertyKey[]): string {
  const segments = path.map((segment) => {
    if (typeof segment === "number") return `[${segment}]`;
    const name = String(segment);
    return /^[A-Za-z_]\w*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
  });
  return `$${segments.join("")}`;
}
