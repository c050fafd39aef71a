import fs from "node:fs";
import path from "node:path";

/** Delay before a failed save is retried. Milliseconds. */
const RETRY_DELAY_MS = 1_000;

/** A small file, readable by its owner only. It holds the last content that could be written. */
export interface SavedFile {
  /** Replaces the content. If that fails, for instance on a full disk, it logs a line and retries until it succeeds. */
  save(content: string): void;
  /** Deletes the file and stops retrying. */
  remove(): void;
}

/** Creates the object, not the file. Content is written to a second file and renamed, so readers see all of it or none. */
export function createSavedFile(file: string, log: (line: string) => void): SavedFile {
  let retry: NodeJS.Timeout | undefined;
  let hasFailed = false;
  const save = (content: string) => {
    clearTimeout(retry);
    try {
      replaceFile(file, content);
      if (hasFailed) log(`${path.basename(file)} was written after a retry.`);
      hasFailed = false;
    } catch (error) {
      if (!hasFailed) log(`Cannot write ${file}, will retry: ${(error as Error).message}`);
      hasFailed = true;
      retry = setTimeout(() => save(content), RETRY_DELAY_MS).unref();
    }
  };
  return {
    save,
    remove() {
      clearTimeout(retry);
      for (const name of [file, beside(file)]) fs.rmSync(name, { force: true });
    },
  };
}

const beside = (file: string) => `${file}.new`;

function replaceFile(file: string, content: string): void {
  fs.writeFileSync(beside(file), content, { mode: 0o600 });
  fs.renameSync(beside(file), file);
}
