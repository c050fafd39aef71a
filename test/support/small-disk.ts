import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import type { Context } from "mocha";
import { readProcessIdentity } from "../../deploy/local/setup/processes.mjs";

/** A real file system that a test can fill. */
export interface SmallDisk {
  folder: string;
  /** Fills the free space. A later call fills the space that has become free since. */
  fill(): void;
  /** Frees the space that `fill` occupies. */
  free(): void;
  /** Unmounts the disk. Processes can still use files that they have open. */
  remove(): void;
}

const PREFIX = "clinic-disk-";

/**
 * Mounts a file system in memory. Skips the calling test if mounting is not permitted.
 *
 * @param sizeMiB size in MiB
 */
export function mountSmallDisk(test: Context, sizeMiB: number): SmallDisk {
  removeAbandonedDisks();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), `${PREFIX}${process.pid}-`));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${sizeMiB}m,mode=0755`, "tmpfs", folder], {
      stdio: "pipe",
    });
  } catch (error) {
    fs.rmdirSync(folder);
    process.stderr.write(`skipped: a file system cannot be mounted here (${(error as Error).message.trim()})\n`);
    test.skip();
  }
  const ballastFile = path.join(folder, "ballast");
  return {
    folder,
    fill: () => fillDisk(ballastFile),
    free: () => fs.rmSync(ballastFile, { force: true }),
    remove: () => unmount(folder),
  };
}

/** Appends to a file until the disk is completely full. */
function fillDisk(ballastFile: string): void {
  const descriptor = fs.openSync(ballastFile, "a");
  try {
    for (let size = 1_048_576; size >= 1; size = Math.floor(size / 16)) writeUntilFull(descriptor, size);
  } finally {
    fs.closeSync(descriptor);
  }
}

function writeUntilFull(descriptor: number, size: number): void {
  const chunk = Buffer.alloc(size);
  try {
    for (;;) fs.writeSync(descriptor, chunk);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
}

function unmount(folder: string): void {
  // A process that has just been killed can still have a file open, so the unmount is lazy.
  execFileSync("umount", ["--lazy", folder], { stdio: "pipe" });
  fs.rmdirSync(folder);
}

/** Removes the file systems that killed test processes left behind. */
function removeAbandonedDisks(): void {
  for (const name of fs.readdirSync(os.tmpdir()).filter((name) => name.startsWith(PREFIX))) {
    if (readProcessIdentity(Number(name.slice(PREFIX.length).split("-")[0])) !== undefined) continue;
    const folder = path.join(os.tmpdir(), name);
    try {
      unmount(folder);
    } catch {
      fs.rmSync(folder, { recursive: true, force: true }); // the disk was already unmounted
    }
  }
}
