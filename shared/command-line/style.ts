import { randomUUID } from "node:crypto";
import { escapeControlCharacters, type Terminal } from "./terminal.ts";

const CODES = { bold: [1, 22], dim: [2, 22], red: [31, 39], green: [32, 39] } as const;

/**
 * Marks a style until {@link renderLine} inserts the escape sequence. It is random, so that stored text cannot contain
 * it.
 */
const STYLE_MARK = randomUUID();

/** Functions that apply a style to a text. If colors are off, they return the text unchanged. */
export type Style = Record<keyof typeof CODES, (text: string) => string>;

/**
 * Creates the styles of a terminal. Colors are off without a terminal, with NO_COLOR (no-color.org), and with
 * TERM=dumb.
 */
export function createStyle({ env, columns }: Pick<Terminal, "env" | "columns">): Style {
  const hasColors = columns !== undefined && !env.NO_COLOR && env.TERM !== "dumb";
  return Object.fromEntries(
    Object.entries(CODES).map(([name, [start, end]]) => [
      name,
      (text: string) => (hasColors ? `${STYLE_MARK}${start}m${text}${STYLE_MARK}${end}m` : text),
    ]),
  ) as Style;
}

/**
 * Makes a line printable: converts styles to terminal codes, and escapes other control characters except line breaks.
 */
export function renderLine(line: string): string {
  return line.split("\n").map(escapeControlCharacters).join("\n").replaceAll(STYLE_MARK, "\x1b[");
}
