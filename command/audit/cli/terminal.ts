/** Environment of the auditors' command line: variables, streams and keyboard. */
export interface AuditTerminal {
  env: NodeJS.ProcessEnv;
  /** Writes text to standard output. Resolves when the reader keeps up. */
  write(text: string): Promise<void>;
  /** Writes a line to standard error. */
  err(line: string): void;
  /** Redraws the last line of standard error; undefined if standard error is not a terminal. */
  redraw: ((text: string) => void) | undefined;
  /** Width of standard output in characters; undefined if standard output is not a terminal. */
  columns: number | undefined;
  /** Waits for a key; undefined if standard input is not a terminal. */
  key: (() => Promise<"next" | "end">) | undefined;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are the ones to find
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Escapes characters that could control the terminal, because stored text may contain them. */
export function printable(text: string): string {
  return text.replaceAll(UNSEEN, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** Truncates a line to the given width. @param columns undefined for no limit */
export function fitted(line: string, columns: number | undefined): string {
  const characters = [...line];
  if (columns === undefined || characters.length <= columns) return line;
  return `${characters.slice(0, Math.max(0, columns - 1)).join("")}…`;
}
