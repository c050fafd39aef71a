import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import type { Context } from "mocha";
import { readProcessIdentity } from "../../deploy/local/setup/processes.mjs";

/** A small file system that a test can fill. */
export interface SmallDisk {
  folder: string;
  /** Fills the disk. @param freeBytes free space to leave */
  fill(freeBytes?: number): void;
  /** Deletes what `fill` has written. */
  free(): void;
  /** Unmounts the disk. Processes can still use files that they have open. */
  remove(): void;
}

const PREFIX = "clinic-disk-";

/**
 * Mounts a file system in memory. If mounting is not permitted, skips the test.
 *
 * @param sizeMiB size in MiB
 */
export function mountSmallDisk(test: Context, sizeMiB: number): SmallDisk {
  removeAbandonedDisks();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), `${PREFIX}${process.pid}-`));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${sizeMiB}m,mode=0755`, "tmpfs", folder], { stdio: "pipe" });
  } catch (error) {
    fs.rmdirSync(folder);
    process.stderr.write(`skipped: a file system cannot be mounted here (${(error as Error).message.trim()})\n`);
    test.skip();
  }
  const ballastFile = path.join(folder, "ballast");
  return {
    folder,
    fill: (freeBytes = 0) => fillDisk(ballastFile, freeBytes),
    free: () => fs.rmSync(ballastFile, { force: true }),
    remove: () => unmount(folder),
  };
}

function fillDisk(ballastFile: string, freeBytes: number): void {
  fs.rmSync(ballastFile, { force: true });
  const { bavail, bsize } = fs.statfsSync(path.dirname(ballastFile));
  try {
    fs.writeFileSync(ballastFile, Buffer.alloc(bavail * bsize - freeBytes));
  } catch (error) {
    // The test's process has used some of the space meanwhile, and the disk is full now.
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
}

function unmount(folder: string): void {
  // A process that has just been killed can still have a file open, so the unmount is lazy.
  execFileSync("umount", ["--lazy", folder], { stdio: "pipe" });
  fs.rmdirSync(folder);
}

/** Unmounts the file systems of killed test processes. */
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
