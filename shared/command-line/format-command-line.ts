import type { Terminal } from "./terminal.ts";

/**
 * Formats a command line of the executable `clinic` for a message to an operator. In a checkout, the npm scripts set
 * CLINIC_PROGRAM to the command that starts the executable there.
 *
 * @param args words after the program's name, such as "projection status"
 */
export function formatCommandLine(args: string): string {
  return `${process.env.CLINIC_PROGRAM ?? "clinic"} ${args}`;
}

/**
 * Suggests the next command, if the result is text and the output is a terminal.
 *
 * @param isJson true if the result is JSON
 * @param args words after the program's name
 */
export async function suggestNext(
  { columns, writeError }: Pick<Terminal, "columns" | "writeError">,
  isJson: boolean,
  args: string,
): Promise<void> {
  if (columns !== undefined && !isJson) await writeError(`Next: ${formatCommandLine(args)}`);
}

/** Breaks a command line before its options, with a backslash as in a shell, so that lines fit the width. */
export function foldCommandLine(commandLine: string, width: number): string {
  const [firstWords = "", ...otherWords] = commandLine.split(/ (?=--)/);
  let line = firstWords;
  const lines: string[] = [];
  for (const words of otherWords) {
    // The line also needs room for the indentation and the backslash.
    if (line.length + words.length + 5 <= width) line += ` ${words}`;
    else {
      lines.push(`${line} \\`);
      line = `    ${words}`;
    }
  }
  return [...lines, line].join("\n");
}
