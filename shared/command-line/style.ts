import type { Terminal } from "./terminal.ts";

const CODES = { bold: [1, 22], dim: [2, 22], red: [31, 39], green: [32, 39] } as const;

/** Functions that mark a text. Without colours, they return the text unchanged. */
export type Style = Record<keyof typeof CODES, (text: string) => string>;

/** Creates the styles of a terminal. Only a terminal gets colours, unless NO_COLOR is set (no-color.org). */
export function createStyle({ env, columns }: Pick<Terminal, "env" | "columns">): Style {
  const hasColors = columns !== undefined && !env.NO_COLOR && env.TERM !== "dumb";
  return Object.fromEntries(
    Object.entries(CODES).map(([name, [start, end]]) => [
      name,
      (text: string) => (hasColors ? `\x1b[${start}m${text}\x1b[${end}m` : text),
    ]),
  ) as Style;
}
