/** Parses Prometheus's text format, and reads the documented metrics. */
import { readFile } from "node:fs/promises";

export interface MetricFamily {
  type: string;
  help: string;
  /** Names of all labels of the samples. */
  labels: string[];
  samples: MetricSample[];
}

export interface MetricSample {
  /** Name of the family, possibly with a suffix such as `_bucket`. */
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** Parses a response of /metrics. Returns the families by name. @throws {Error} if a line is malformed */
export function parseMetrics(text: string): Map<string, MetricFamily> {
  const families = new Map<string, MetricFamily>();
  let family: MetricFamily | undefined;
  for (const line of text.split("\n").filter((line) => line !== "")) {
    const [, keyword, name = "", comment = ""] = /^# (HELP|TYPE) (\w+) (.*)$/.exec(line) ?? [];
    if (keyword === "HELP") {
      family = { type: "", help: comment, labels: [], samples: [] };
      families.set(name, family);
    } else if (keyword === "TYPE" && family) family.type = comment;
    else family?.samples.push(parseSample(line));
  }
  for (const parsedFamily of families.values())
    parsedFamily.labels = [...new Set(parsedFamily.samples.flatMap(({ labels }) => Object.keys(labels)))];
  return families;
}

function parseSample(line: string): MetricSample {
  const [, name, labelText = "", value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
  if (name === undefined) throw new Error(`Malformed line of metrics: ${line}`);
  const labels = [...labelText.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, label, text]) => [label, text]);
  return { name, labels: Object.fromEntries(labels), value: Number(value) };
}

/** A row of the table in docs/operations/monitoring.md. */
export interface DocumentedMetric {
  name: string;
  type: string;
  labels: string[];
  services: string;
  help: string;
}

/** Reads the table of metrics in docs/operations/monitoring.md. */
export async function readDocumentedMetrics(): Promise<DocumentedMetric[]> {
  const text = await readFile(new URL("../../docs/operations/monitoring.md", import.meta.url), "utf8");
  const rows = text.matchAll(/^\| `(\w+)` \| (\w+) \|(.*?)\| (.*?) \| (.*) \|$/gm);
  return [...rows].map(([, name = "", type = "", labels = "", services = "", help = ""]) => ({
    name,
    type,
    services,
    help,
    labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label = ""]) => label).sort(),
  }));
}

/** Returns the value of the sample with exactly these labels. */
export function readSample(
  families: Map<string, MetricFamily>,
  sampleName: string,
  labels: Record<string, string>,
): number | undefined {
  const samples = [...families.values()].flatMap((family) => family.samples);
  const matches = samples.filter(({ name }) => name === sampleName);
  return matches.find((sample) => JSON.stringify(sort(sample.labels)) === JSON.stringify(sort(labels)))?.value;
}

const sort = (labels: Record<string, string>) => Object.entries(labels).sort();
