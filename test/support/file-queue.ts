import fs from "node:fs";
import path from "node:path";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";

const TEST_FOLDER = path.join(PROJECT_FOLDER, "test");

/** Duration of each test file in its last run, in milliseconds. */
const DURATIONS_FILE = path.join(PROJECT_FOLDER, "node_modules", ".cache", "test-durations.json");

/** All test files of the project. A long file must not start last, because then only one process would still work. */
export interface FileQueue {
  /** Returns the next file, or undefined if no file is left. The path is relative to the project's folder. */
  take(): string | undefined;
  /** Records the duration of a file for the order of the next run. */
  record(file: string, durationMs: number): void;
  /** Stores the recorded durations. */
  save(): void;
}

/** Creates the queue. New files come first, the largest at the beginning. The others follow, the longest first. */
export function createFileQueue(): FileQueue {
  const durations = readDurations();
  const files = fs
    .readdirSync(TEST_FOLDER, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => path.join("test", name))
    .map((file) => ({
      file,
      durationMs: durations[file] ?? Number.POSITIVE_INFINITY,
      size: fs.statSync(path.join(PROJECT_FOLDER, file)).size,
    }))
    .sort((a, b) => (a.durationMs === b.durationMs ? b.size - a.size : b.durationMs - a.durationMs))
    .map(({ file }) => file);
  return {
    take: () => files.shift(),
    record(file, durationMs) {
      durations[file] = Math.round(durationMs);
    },
    save() {
      fs.mkdirSync(path.dirname(DURATIONS_FILE), { recursive: true });
      fs.writeFileSync(DURATIONS_FILE, JSON.stringify(durations));
    },
  };
}

function readDurations(): Record<string, number> {
  if (!fs.existsSync(DURATIONS_FILE)) return {};
  return JSON.parse(fs.readFileSync(DURATIONS_FILE, "utf8"));
}
