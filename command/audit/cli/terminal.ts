/** Where the auditors' command line gets its surroundings from. */
export interface AuditTerminal {
  env: NodeJS.ProcessEnv;
  /** Writes a text on standard output, as fast as it is taken. */
  write(text: string): Promise<void>;
  /** Writes a line on standard error. */
  err(line: string): void;
  /** Redraws the last line of standard error; undefined where that is no terminal. */
  redraw: ((text: string) => void) | undefined;
  /** How wide standard output is; undefined where it is no terminal. */
  columns: number | undefined;
  /** Waits for a key; undefined where nobody sits at the keyboard. */
  key: (() => Promise<"next" | "end">) | undefined;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** What is stored may hold what makes a terminal do things: such characters are shown by their number. */
export function printable(text: string): string {
  return text.replaceAll(UNSEEN, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** A line that fits, its end cut off where it is longer. @param columns undefined: as long as it is */
export function fitted(line: string, columns: number | undefined): string {
  const characters = [...line];
  if (columns === undefined || characters.length <= columns) return line;
  return `${characters.slice(0, Math.max(0, columns - 1)).join("")}…`;
}
