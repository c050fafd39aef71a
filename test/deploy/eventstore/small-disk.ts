import { execFile } from "node:child_process";
import { rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { createTemporaryDir } from "./log-process.ts";

const execFileAsync = promisify(execFile);

/** A mounted file system of a few megabytes that tests can fill. */
export interface SmallDisk {
  readonly dir: string;
  /** Fills the disk, but leaves the given number of bytes free. */
  fill(freeBytes?: number): Promise<void>;
  /** Frees the space that `fill` occupied. */
  free(): Promise<void>;
  remove(): Promise<void>;
}

/** Mounts a tmpfs for a test suite. If that fails, skips the suite and adds the reason to the test titles. */
export async function mountSmallDisk(hookContext: Mocha.Context, bytes: number): Promise<SmallDisk> {
  const diskOrReason = await mountTmpfs(bytes);
  if (typeof diskOrReason !== "string") return diskOrReason;
  for (const test of hookContext.test?.parent?.tests ?? []) test.title += ` (skipped: ${diskOrReason})`;
  return hookContext.skip();
}

async function mountTmpfs(bytes: number): Promise<SmallDisk | string> {
  if (process.platform !== "linux") return "only Linux has tmpfs";
  const { dir, remove } = await createTemporaryDir();
  try {
    await execFileAsync("mount", ["-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", dir]);
  } catch (error) {
    await remove();
    return `mounting is not permitted: ${String(error).trim()}`;
  }
  const fillerPath = join(dir, "filler");
  return {
    dir,
    fill: async (freeBytes = 0) => {
      await rm(fillerPath, { force: true });
      const { bavail, bsize } = await statfs(dir);
      await writeFile(fillerPath, Buffer.alloc(bavail * bsize - freeBytes));
    },
    free: () => rm(fillerPath, { force: true }),
    remove: async () => {
      // A failed test may have left a file open.
      await execFileAsync("umount", ["--lazy", dir]);
      await remove();
    },
  };
}
