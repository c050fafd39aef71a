import type { z } from "zod";

/** Matches the messages that zod generates. All other messages are defined in the schemas of this project. */
const ZOD_MESSAGE_PATTERN = /^(Invalid|Too) /;

const UNITS_BY_TYPE: Record<string, string> = { string: "character", array: "item" };

const TYPE_NAMES: Record<string, string> = { int: "integer", record: "object" };

const FORMAT_RULES: Record<string, string> = {
  guid: "must be a UUID",
  url: "must be a URL",
  email: "must be an e-mail address",
  base64: "must be base64",
  datetime: "must be an RFC 3339 date-time in UTC",
};

/** Lists the invalid and the unknown fields of an input. Each message is a phrase that follows the field's name. */
export function listIssues({ issues }: z.ZodError): { path: PropertyKey[]; message: string }[] {
  return issues.flatMap((issue) =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => ({ path: [...issue.path, key], message: "is not a known field" }))
      : [{ path: issue.path, message: describeIssue(issue) }],
  );
}

/**
 * Describes a validation issue for the author of a request or command, as a phrase that follows the field's name, such
 * as `must be a UUID`.
 */
export function describeIssue(issue: z.core.$ZodIssue): string {
  const { message } = issue;
  if (!ZOD_MESSAGE_PATTERN.test(message)) return message;
  switch (issue.code) {
    case "invalid_type":
      if (message.endsWith("received undefined")) return "is missing";
      return `must be of type ${TYPE_NAMES[issue.expected] ?? issue.expected}`;
    case "invalid_value":
      return `must be ${issue.values.length > 1 ? "one of " : ""}${issue.values.join(", ")}`;
    case "invalid_key":
      return issue.issues.map(describeIssue).join(", ");
    case "too_small":
      return describeLimit(issue.inclusive ? "at least" : "more than", issue.minimum, issue.origin);
    case "too_big":
      return describeLimit(issue.inclusive ? "at most" : "less than", issue.maximum, issue.origin);
    case "invalid_format":
      // Regular expressions are never shown, so schemas with a pattern define their own message.
      return FORMAT_RULES[issue.format] ?? (issue.pattern ? "has the wrong form" : lowerCaseFirst(message));
    default:
      return lowerCaseFirst(message);
  }
}

function describeLimit(comparison: string, limit: number | bigint, origin: string): string {
  const unit = UNITS_BY_TYPE[origin];
  if (!unit) return `must be ${comparison} ${limit}`;
  return `must have ${comparison} ${limit} ${unit}${Number(limit) === 1 ? "" : "s"}`;
}

const lowerCaseFirst = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);
