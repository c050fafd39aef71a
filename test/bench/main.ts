/**
 * Runs the benchmarks one after the other, each in its own process, and prints one table. Also writes the result of
 * each benchmark to its section of `docs/performance.md`.
 *
 *     npm run bench                    all benchmarks
 *     npm run bench -- reads writes    some benchmarks
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { replacePart } from "./performance-document.ts";
import { printHeader, type Row } from "./report.ts";

const DOCUMENT_FILE = fileURLToPath(new URL("../../docs/performance.md", import.meta.url));

const BENCHMARK_FILES: Record<string, string> = {
  reads: "reads.ts",
  growth: "growth.ts",
  writes: "writes.ts",
  bookings: "bookings.ts",
  import: "import.ts",
  rebuild: "projection.ts",
  memory: "memory.ts",
  webhooks: "webhooks.ts",
  path: "webhook-path.ts",
  deliveries: "delivery-writes.ts",
  processes: "processes.ts",
  log: "log.ts",
  audit: "audit.ts",
};

const names = process.argv.slice(2);
const unknownNames = names.filter((name) => !(name in BENCHMARK_FILES));
if (unknownNames.length > 0) {
  console.error(
    `Unknown benchmark: ${unknownNames.join(", ")}. Choose from: ${Object.keys(BENCHMARK_FILES).join(", ")}.`,
  );
  process.exit(2);
}

const memoryGib = Math.round(totalmem() / 2 ** 30);
const machine = `${availableParallelism()} cores (${cpus()[0]?.model}), ${memoryGib} GiB, Node ${process.version}`;
const commit = execFileSync("git", ["describe", "--always", "--dirty", "--exclude=*"], { encoding: "utf8" }).trim();
console.log(`${machine}, load ${loadavg()[0]?.toFixed(1)}`);
printHeader();
const allParts = Object.keys(BENCHMARK_FILES);
for (const part of names.length > 0 ? names : allParts) {
  const file = fileURLToPath(new URL(BENCHMARK_FILES[part] as string, import.meta.url));
  // A rebuild is a command of the executable `clinic`, which sets this option.
  const options = part === "rebuild" ? ["--max-semi-space-size=64"] : [];
  const child = spawn(process.execPath, [...options, "--import=./deploy/local/setup/tsx.mjs", file], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const rows: Row[] = [];
  child.on("message", (row: Row) => rows.push(row));
  const [exitCode] = await once(child, "close");
  if (exitCode !== 0) {
    console.error(`The benchmark ${part} failed.`);
    process.exitCode = 1;
    continue;
  }
  const setup = `${new Date().toISOString().slice(0, 10)}, ${commit}, ${machine}.`;
  writeFileSync(DOCUMENT_FILE, replacePart(readFileSync(DOCUMENT_FILE, "utf8"), allParts, { part, setup, rows }));
}
