import fs from "node:fs";
import path from "node:path";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";

const TEST_FOLDER = path.join(PROJECT_FOLDER, "test");

/** Durations of the long test files in seconds. `UPDATE_DURATIONS=true npm test` measures them again. */
const DURATIONS_FILE = path.join(TEST_FOLDER, "durations.json");

/** Files that take at least this time are long. Seconds. */
const MIN_LONG_DURATION_SECONDS = 5;

/**
 * All test files of the project. A long file must not start last, because then only one process would still work. Long
 * files must not all run at the same time either, because they mostly wait for servers and time limits.
 */
export interface FileQueue {
  /** All files. The paths are relative to the project's folder. */
  files: readonly string[];
  /**
   * Returns the next file, or undefined if no file is left.
   *
   * @param prefersShort whether to return a long file only if no other file is left
   */
  take(prefersShort: boolean): string | undefined;
  /** Records the duration of a file. */
  record(file: string, seconds: number): void;
  /** Stores the recorded durations if the environment variable UPDATE_DURATIONS is `true`. */
  save(): void;
}

/** Creates the queue. Long files come first, the longest at the beginning. The others follow, the largest first. */
export function createFileQueue(): FileQueue {
  const durations: Record<string, number> = JSON.parse(fs.readFileSync(DURATIONS_FILE, "utf8"));
  const files = fs
    .readdirSync(TEST_FOLDER, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => path.join("test", name))
    .map((file) => ({ file, seconds: durations[file] ?? 0, size: fs.statSync(path.join(PROJECT_FOLDER, file)).size }))
    .sort((a, b) => b.seconds - a.seconds || b.size - a.size)
    .map(({ file }) => file);
  const longDurations: [string, number][] = [];
  const remainingFiles = [...files];
  return {
    files,
    take(prefersShort) {
      const shortIndex = prefersShort ? remainingFiles.findIndex((file) => !(file in durations)) : 0;
      return remainingFiles.splice(Math.max(shortIndex, 0), 1)[0];
    },
    record(file, seconds) {
      if (seconds >= MIN_LONG_DURATION_SECONDS) longDurations.push([file, Math.round(seconds)]);
    },
    save() {
      if (process.env.UPDATE_DURATIONS !== "true") return;
      const sortedDurations = Object.fromEntries(longDurations.sort(([, a], [, b]) => b - a));
      fs.writeFileSync(DURATIONS_FILE, `${JSON.stringify(sortedDurations, null, 2)}\n`);
    },
  };
}
