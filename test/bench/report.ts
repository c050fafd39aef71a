import type { LoadResult } from "./load.ts";

/** One row of the table. Cells without a value are empty. */
export interface Row {
  name: string;
  /** Items per second. */
  rate?: number;
  /** Items per second of the reference. */
  referenceRate?: number;
  /** Median latency. Milliseconds. */
  p50?: number;
  p99?: number;
  /** CPU time per item, by process. Microseconds. */
  cpuMicros?: Record<string, number>;
  note?: string;
  /** If true, the row is printed, but not written to `docs/performance.md`. */
  isDetail?: boolean;
}

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

export function printHeader(): void {
  printCells(COLUMNS.map(([title]) => title));
}

/** Prints a row, and sends it to the parent process if `main.ts` started this process. */
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

export function formatCost({ cpuMicros = {}, note }: Row): string {
  const costTexts = Object.entries(cpuMicros).map(([processName, micros]) => `${processName} ${micros.toFixed(0)}`);
  if (note !== undefined) costTexts.push(note);
  return costTexts.join(", ");
}

/**
 * Prints a row for a load and its reference rate.
 *
 * @param referenceLoads measurements of the reference, usually before and after the load. Their mean rate is printed
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
