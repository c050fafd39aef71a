import canonicalize from "canonicalize";

/**
 * Returns the canonical JSON of a value (RFC 8785).
 *
 * @throws {Error} for a value that JSON cannot represent, such as a lone surrogate
 */
export function toCanonicalJson(value: unknown): string {
  const text = canonicalize(value);
  if (text === undefined) throw new Error("JSON cannot represent the value");
  return text;
}

/** Returns true if a line is the canonical JSON of the value, followed by a line feed. */
export function isCanonicalLine(line: string, value: unknown): boolean {
  try {
    return line === `${toCanonicalJson(value)}\n`;
  } catch {
    return false;
  }
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
