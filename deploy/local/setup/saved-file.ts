import fs from "node:fs";
import path from "node:path";

/** A save that failed is repeated after this. Milliseconds. */
const RETRY_MS = 1_000;

/** A small file, readable by its owner only. It holds the last content that could be written. */
export interface SavedFile {
  /** Replaces the content. If that fails, for instance on a full disk, it logs a line and retries until it succeeds. */
  save(content: string): void;
  /** Deletes the file, and saves nothing more. */
  remove(): void;
}

/** Gives the file, not yet written. A reader never sees a part of a content: it is written beside and renamed. */
export function savedFile(file: string, log: (line: string) => void): SavedFile {
  let retry: NodeJS.Timeout | undefined;
  let hasFailed = false;
  const save = (content: string) => {
    clearTimeout(retry);
    try {
      replace(file, content);
      if (hasFailed) log(`${path.basename(file)} is written again`);
      hasFailed = false;
    } catch (error) {
      if (!hasFailed) log(`${file} cannot be written and is tried again: ${(error as Error).message}`);
      hasFailed = true;
      retry = setTimeout(() => save(content), RETRY_MS).unref();
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

function replace(file: string, content: string): void {
  fs.writeFileSync(beside(file), content, { mode: 0o600 });
  fs.renameSync(beside(file), file);
}
