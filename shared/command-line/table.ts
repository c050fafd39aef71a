import { createStyle } from "./style.ts";
import { escapeControlCharacters, type Terminal } from "./terminal.ts";

/**
 * Formats rows as a table. If the terminal is narrower than the table, each row becomes a record with one line for each
 * value. Values are never truncated, because operators need complete ids for the next command.
 *
 * @param rows values by name; all rows have the same names
 */
export function formatTable(
  rows: readonly Readonly<Record<string, string>>[],
  terminal: Pick<Terminal, "env" | "columns">,
): string[] {
  const { bold, dim } = createStyle(terminal);
  const titles = Object.keys(rows[0] ?? {}).map((name) =>
    name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`),
  );
  const lines = rows.map((row) => Object.values(row).map(escapeControlCharacters));
  const widths = titles.map((title, column) =>
    Math.max(title.length, ...lines.map((cells) => cells[column]?.length ?? 0)),
  );
  if (widths.reduce((sum, width) => sum + width + 2, -2) <= (terminal.columns ?? Number.POSITIVE_INFINITY)) {
    const pad = (cells: readonly string[]) => cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
    const [head, ...body] = [titles.map((title) => title.toUpperCase()), ...lines].map((cells) => pad(cells).trimEnd());
    return rows.length === 0 ? [] : [bold(head ?? ""), ...body];
  }
  const titleWidth = Math.max(...titles.map(({ length }) => length));
  return lines.map((cells) =>
    cells.map((cell, column) => `${dim((titles[column] ?? "").padEnd(titleWidth))}  ${cell}\n`).join(""),
  );
}
