import { COST_TITLE, formatCost, type Row } from "./report.ts";

const START = "<!-- Start of the tables, which `npm run bench` writes. -->\n";
const END = "<!-- End of the tables. -->\n";

export interface PartResult {
  /** Name of the benchmark, such as `reads`. */
  part: string;
  /** Machine, versions, commit and date, as one sentence. */
  setup: string;
  rows: readonly Row[];
}

/** Columns of the tables. The reference rate is left out, because it is the rate divided by the ratio. */
const COLUMNS: [title: string, toText: (row: Row) => string][] = [
  ["measurement", ({ name }) => name],
  ["rate/s", ({ rate }) => rate?.toFixed(0) ?? ""],
  ["ratio", ({ rate, referenceRate }) => (rate && referenceRate ? (rate / referenceRate).toFixed(2) : "")],
  ["p50 ms", ({ p50 }) => p50?.toFixed(1) ?? ""],
  ["p99 ms", ({ p99 }) => p99?.toFixed(1) ?? ""],
  [COST_TITLE, formatCost],
];

/**
 * Replaces the section of one benchmark in `docs/performance.md`, between the markers. Keeps all other sections.
 *
 * @param parts names of all benchmarks, in the order of their sections
 * @throws {Error} if the document lacks a marker
 */
export function replacePart(document: string, parts: readonly string[], result: PartResult): string {
  const [before, rest] = document.split(START);
  const [tables, after] = rest?.split(END) ?? [];
  if (before === undefined || tables === undefined || after === undefined)
    throw new Error("The document of the benchmarks lacks a marker.");
  const sections = tables.split(/^(?=### )/m).filter((section) => section.startsWith("### "));
  const sectionByPart = new Map(sections.map((section) => [/^### (.*)/.exec(section)?.[1] ?? "", section]));
  sectionByPart.set(result.part, renderSection(result));
  const orderedSections = parts.map((part) => sectionByPart.get(part) ?? "");
  return `${before}${START}\n${orderedSections.join("")}${END}${after}`;
}

/** Renders the section without detail rows and without empty columns. */
function renderSection({ part, setup, rows }: PartResult): string {
  const shownRows = rows.filter((row) => !row.isDetail);
  const columns = COLUMNS.filter(([, toText]) => shownRows.some((row) => toText(row) !== ""));
  const hasCosts = shownRows.some(({ cpuMicros }) => cpuMicros !== undefined);
  const renderLine = (cells: string[]) => `| ${cells.join(" | ")} |\n`;
  const lines = [
    renderLine(columns.map(([title]) => (title === COST_TITLE && !hasCosts ? "remarks" : title))),
    `|${"---|".repeat(columns.length)}\n`,
    ...shownRows.map((row) => renderLine(columns.map(([, toText]) => toText(row)))),
  ];
  return `### ${part}\n\n${setup}\n\n${lines.join("")}\n`;
}
