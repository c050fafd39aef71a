import fs from "node:fs";
import path from "node:path";

/** Delay in milliseconds before a failed save is retried. */
const RETRY_DELAY_MS = 1_000;

/** A small file that only its owner can read. It contains the last content that was saved successfully. */
export interface SavedFile {
  /**
   * Replaces the content. If the file cannot be written, for example on a full disk, logs a line and retries until the
   * write succeeds.
   */
  save(content: string): void;
  /** Deletes the file and stops retrying. */
  remove(): void;
}

/** Returns a handle for the file. The first call of `save` creates the file. */
export function createSavedFile(file: string, log: (line: string) => void): SavedFile {
  let retryTimer: NodeJS.Timeout | undefined;
  let hasFailed = false;
  const save = (content: string) => {
    clearTimeout(retryTimer);
    try {
      replaceFile(file, content);
      if (hasFailed) log(`${path.basename(file)} was written after a retry.`);
      hasFailed = false;
    } catch (error) {
      if (!hasFailed) log(`Cannot write ${file}, will retry: ${(error as Error).message}`);
      hasFailed = true;
      retryTimer = setTimeout(() => save(content), RETRY_DELAY_MS).unref();
    }
  };
  return {
    save,
    remove() {
      clearTimeout(retryTimer);
      for (const name of [file, `${file}.new`]) fs.rmSync(name, { force: true });
    },
  };
}

/**
 * Replaces a file's content. Only the owner can read the file. The content is written to a second file, which then
 * replaces the first file in one step. A reader always sees either the old or the new content.
 */
export function replaceFile(file: string, content: string): void {
  fs.writeFileSync(`${file}.new`, content, { mode: 0o600 });
  fs.renameSync(`${file}.new`, file);
}
