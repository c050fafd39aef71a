/** Environment in which the auditors' command line runs: environment variables, output streams and keyboard. */
export interface AuditTerminal {
  env: NodeJS.ProcessEnv;
  /** Writes text to standard output. Resolves when more text can be written. */
  write(text: string): Promise<void>;
  /** Writes a line to standard error. */
  writeError(line: string): void;
  /** Replaces the last line on standard error. Undefined if standard error is not a terminal. */
  redraw: ((text: string) => void) | undefined;
  /** Width of standard output in characters. Undefined if standard output is not a terminal. */
  columns: number | undefined;
  /** Waits for the user to press a key. Undefined if standard input or output is not a terminal. */
  readKey: (() => Promise<"next" | "end">) | undefined;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression finds control characters on purpose
const CONTROL_CHARACTERS = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Escapes the control characters in stored text, because a terminal would interpret them. */
export function escapeControlCharacters(text: string): string {
  return text.replaceAll(CONTROL_CHARACTERS, (character) => {
    const codePoint = character.codePointAt(0) ?? 0;
    return `\\u${codePoint.toString(16).padStart(4, "0")}`;
  });
}

/**
 * Truncates a line to a width.
 *
 * @param columns the width in characters; undefined if the line is not truncated
 */
export function truncateLine(line: string, columns: number | undefined): string {
  const characters = [...line];
  if (columns === undefined || characters.length <= columns) return line;
  return `${characters.slice(0, Math.max(0, columns - 1)).join("")}…`;
}
