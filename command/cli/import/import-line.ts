import { v5 as uuidv5 } from "uuid";
import { toOptionProblems } from "../../../shared/command-line/option.ts";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import { findJsonError } from "../../../shared/domain/validation/json-error.ts";
import { findJsonLoss } from "../../../shared/domain/validation/json-loss.ts";
import { staffCommands } from "../../operations/commands.ts";
import type { StaffCommand } from "../../operations/define-command.ts";
import { listProblems } from "../../operations/list-problems.ts";

/** Namespace of the UUIDs that are derived from lines and files. Must never change. */
const ID_NAMESPACE = "d8a1f6f2-5b0d-4b6e-9c3a-2f7e1c9b4a60";

interface ParsedLine {
  /** Id of the object that the line changes; undefined if the line is invalid and does not contain this id. */
  changedId: string | undefined;
  /** All ids in the line, including `changedId`. For an invalid line, only `changedId`. */
  ids: ReadonlySet<string>;
}

/** A command and the values of its fields. */
export interface CommandLine extends ParsedLine {
  command: StaffCommand;
  values: Record<string, unknown>;
  stream: string;
}

export interface InvalidLine extends ParsedLine {
  problems: FieldProblem[];
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
}

const importableCommands = new Map(
  staffCommands.filter(({ isImportable }) => isImportable).map((command) => [command.name, command]),
);

const MAX_PROBLEMS = 20;

/** Parses a line of an import, such as `{"command": "customer register", "customerId": …, …}`. Every id is required. */
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
  if (name === undefined) return createInvalidLine("is missing", "$.command");
  const command = typeof name === "string" ? importableCommands.get(name) : undefined;
  if (!command) {
    const nameText = typeof name === "string" ? JSON.stringify(name.slice(0, 60)) : "is not a string and";
    return createInvalidLine(`${nameText} cannot be imported; see \`import --help\``, "$.command");
  }
  const { success, data: values, error } = command.input.safeParse(givenValues);
  const changedId = command.getStreamId(success ? values : selectValid(command, givenValues));
  if (success) {
    const ids = new Set([changedId as string, ...collectIds(values)]);
    return { command, values, changedId, stream: toStreamName(command.category, changedId as string), ids };
  }
  const problems = toOptionProblems(error, givenValues).map(({ path, message }) => toProblem(path, message));
  const unlistedCount = problems.splice(MAX_PROBLEMS).length;
  if (unlistedCount > 0) problems.push(toProblem([], `has ${unlistedCount} more problems`));
  return { problems, changedId, ids: new Set(changedId === undefined ? [] : [changedId]) };
}

/**
 * Returns the valid field values of an invalid line. They can contain the id of the object that the line would change.
 */
function selectValid({ input }: StaffCommand, givenValues: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(input.shape).map(([name, schema]) => [name, schema.safeParse(givenValues[name]).data]),
  );
}

const UUID_PATTERN = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function collectIds(value: unknown): string[] {
  if (typeof value === "string") return UUID_PATTERN.test(value) ? [value] : [];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(collectIds) : [];
}

/** @param field JSONPath of the invalid field; by default, the whole line */
export function createInvalidLine(reason: string, field = "$"): InvalidLine {
  return { problems: [{ field, reason }], changedId: undefined, ids: new Set() };
}

/**
 * Creates a function that derives a line's id from its text. In a repeated import, each line gets the same id again,
 * even if the order has changed. Lines with equal text get different ids.
 */
export function createLineIdGenerator(): (line: string) => string {
  const countById = new Map<string, number>();
  return (line) => {
    const text = line.trim();
    const id = deriveImportId(text);
    const earlierCount = countById.get(id) ?? 0;
    countById.set(id, earlierCount + 1);
    return earlierCount === 0 ? id : deriveImportId(`${text}\n${earlierCount}`);
  };
}

/** Derives the id of an import from the digest of its file, or the id of a line from its text. The id is a UUID. */
export function deriveImportId(text: string): string {
  return uuidv5(Buffer.from(text), ID_NAMESPACE);
}

/**
 * Returns true for a UUID of version 5, such as the ids that imports derive. In an event of any other command, the
 * causation id or the correlation id has another version.
 */
export function isLineId(id: string): boolean {
  return id[14] === "5";
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Describes why a line's command was refused, and which fields are invalid. If no single field is invalid, for example
 * in an illegal status transition, the problem names the id of the changed object. For an unexpected error, it names
 * the whole line.
 */
export function describeRefusal(line: number, error: unknown, command: StaffCommand): LineFailure {
  if (!(error instanceof DomainError)) {
    const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return { line, code: "unexpected_error", problems: [{ field: "$", reason }] };
  }
  const problems = listProblems(error, command).map(({ path, message }) =>
    toProblem(
      path.split(".").map((name) => (/^\d+$/.test(name) ? Number(name) : name)),
      message,
    ),
  );
  return { line, code: error.code, problems };
}

/** Creates a problem. Converts the path of the field to a JSONPath, such as `$.scopes[0]`. */
function toProblem(path: readonly PropertyKey[], reason: string): FieldProblem {
  const segments = path.map((segment) => {
    if (typeof segment === "number") return `[${segment}]`;
    const name = String(segment);
    return /^[A-Za-z_]\w*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
  });
  return { field: `$${segments.join("")}`, reason };
}
