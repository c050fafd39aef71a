/**
 * Runs benchmarks, one after the other, and prints one table. Each part runs in its own process.
 *
 *     npm run bench                    all parts
 *     npm run bench -- reads writes    some parts
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { printHeader } from "./report.ts";

/** File of each benchmark. */
const BENCHMARK_FILES: Record<string, string> = {
  reads: "reads.ts",
  growth: "growth.ts",
  writes: "writes.ts",
  import: "import.ts",
  rebuild: "projection.ts",
  memory: "memory.ts",
  webhooks: "webhooks.ts",
  deliveries: "delivery-writes.ts",
  processes: "processes.ts",
  log: "log.ts",
  alternatives: "alternatives.ts",
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
const loadAverage = loadavg()[0]?.toFixed(1);
console.log(
  `${availableParallelism()} cores (${cpus()[0]?.model}), ${memoryGib} GiB, Node ${process.version}, load ${loadAverage}`,
);
printHeader();
for (const name of names.length > 0 ? names : Object.keys(BENCHMARK_FILES)) {
  const file = fileURLToPath(new URL(BENCHMARK_FILES[name] as string, import.meta.url));
  // A rebuild is a command of the executable `clinic`, which sets this option.
  const options = name === "rebuild" ? ["--max-semi-space-size=64"] : [];
  const child = spawn(process.execPath, [...options, "--import=./deploy/local/setup/tsx.mjs", file], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  const [exitCode] = await once(child, "exit");
  if (exitCode !== 0) {
    console.error(`The benchmark ${name} failed.`);
    process.exitCode = 1;
  }
}
