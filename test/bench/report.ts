import type { LoadResult } from "./load.ts";

/** One row of the table. Cells without a value are empty. */
export interface Row {
  /** Name of the measurement. */
  name: string;
  /** Items per second of the service or of an alternative. */
  rate?: number;
  /** Items per second of the reference, measured in the same run. */
  referenceRate?: number;
  /** Latency of the service or of an alternative. Milliseconds. */
  p50?: number;
  p99?: number;
  /** Microseconds of CPU time per item, by process. */
  cpuMicros?: Record<string, number>;
  /** Remark in the last column. */
  note?: string;
  /** If true, the row is printed, but not written to `docs/performance.md`. */
  isDetail?: boolean;
}

/** Title of the last column. */
export const COST_TITLE = "CPU µs per item and process, remarks";

const COLUMNS = [
  ["measurement", 44],
  ["rate/s", 8],
  ["ref./s", 8],
  ["ratio", 6],
  ["p50 ms", 8],
  ["p99 ms", 8],
  [COST_TITLE, 0],
] as const;

/** Prints the header of the table. */
export function printHeader(): void {
  printCells(COLUMNS.map(([title]) => title));
}

/** Prints a row. If `main.ts` has started the process, it receives the row, too. */
export function printRow(row: Row): void {
  const { name, rate, referenceRate, p50, p99 } = row;
  printCells([
    name,
    rate?.toFixed(0) ?? "",
    referenceRate?.toFixed(0) ?? "",
    rate === undefined || referenceRate === undefined ? "" : (rate / referenceRate).toFixed(3),
    p50?.toFixed(1) ?? "",
    p99?.toFixed(1) ?? "",
    formatCost(row),
  ]);
  process.send?.(row);
}

/** Formats the last column. */
export function formatCost({ cpuMicros = {}, note }: Row): string {
  const costTexts = Object.entries(cpuMicros).map(([processName, micros]) => `${processName} ${micros.toFixed(0)}`);
  if (note !== undefined) costTexts.push(note);
  return costTexts.join(", ");
}

/**
 * Prints a row for a load.
 *
 * @param referenceLoads results of the reference. Usually one before and one after, because a machine's speed varies
 */
export function printLoad(name: string, load: LoadResult, ...referenceLoads: LoadResult[]): void {
  const referenceRate = referenceLoads.reduce((sum, { rate }) => sum + rate, 0) / referenceLoads.length;
  const { rate, p50, p99, cpuMicros: cpu } = load;
  printRow({ name, rate, referenceRate, p50, p99, cpuMicros: cpu });
}

function printCells(cells: readonly string[]): void {
  const paddedCells = cells.map((cell, column) => {
    const width = COLUMNS[column]?.[1] ?? 0;
    return column === 0 ? cell.padEnd(width) : cell.padStart(column < COLUMNS.length - 1 ? width : 0);
  });
  console.log(paddedCells.join("  ").trimEnd());
}
