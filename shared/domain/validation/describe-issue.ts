import type { z } from "zod";

/** Matches the messages that zod generates. All other messages are defined in our schemas. */
const LIBRARY = /^(Invalid|Too) /;

const UNITS: Record<string, string> = { string: " characters", array: " items" };

const FORMATS: Record<string, string> = {
  guid: "must be a UUID",
  url: "must be a URL",
  email: "must be an e-mail address",
  base64: "must be base64",
  datetime: "must be an RFC 3339 date-time in UTC",
};

/**
 * Describes a validation issue for the author of a request or command, in words that follow the field's name. The
 * text says which values are valid.
 */
export function describeIssue(issue: z.core.$ZodIssue): string {
  const { message } = issue;
  if (!LIBRARY.test(message)) return message;
  switch (issue.code) {
    case "invalid_type":
      if (message.endsWith("received undefined")) return "is missing";
      return `must be of type ${issue.expected === "int" ? "integer" : issue.expected}`;
    case "invalid_value":
      return `must be ${issue.values.length > 1 ? "one of " : ""}${issue.values.join(", ")}`;
    case "too_small":
      return bound(issue.inclusive ? "at least" : "more than", issue.minimum, issue.origin);
    case "too_big":
      return bound(issue.inclusive ? "at most" : "less than", issue.maximum, issue.origin);
    case "invalid_format":
      // Regular expressions are never shown, so schemas with a pattern define their own message.
      return FORMATS[issue.format] ?? (issue.pattern ? "has the wrong form" : withoutCapital(message));
    default:
      return withoutCapital(message);
  }
}

function bound(how: string, limit: number | bigint, origin: string): string {
  const unit = UNITS[origin];
  return unit ? `must have ${how} ${limit}${unit}` : `must be ${how} ${limit}`;
}

const withoutCapital = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);
