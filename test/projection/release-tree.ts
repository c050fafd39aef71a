import { cp, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { bundle } from "../support/bundle.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Source tree of another release of the projection service: a changed copy of this source tree. */
export interface ReleaseTree {
  root: string;
  /** Replaces text in a file. Fails if a pattern does not occur. */
  patch(path: string, replacements: readonly [string | RegExp, string][]): Promise<void>;
  /** Bundles the service and its command line. Call it after the last change. */
  build(): Promise<void>;
  remove(): Promise<void>;
}

export async function createReleaseTree(): Promise<ReleaseTree> {
  const root = await realpath(await mkdtemp(join(tmpdir(), "clinic-release-")));
  for (const name of ["projection", "shared", "package.json", "tsconfig.json"]) {
    await cp(join(ROOT, name), join(root, name), { recursive: true });
  }
  await symlink(join(ROOT, "node_modules"), join(root, "node_modules"));
  return {
    root,
    async patch(path, replacements) {
      const file = join(root, path);
      let text = await readFile(file, "utf8");
      for (const [pattern, replacement] of replacements) {
        const textBefore = text;
        text = text.replace(pattern, replacement);
        expect(text, String(pattern)).not.to.equal(textBefore);
      }
      await writeFile(file, text);
    },
    build: () =>
      bundle(root, ["projection/main.ts", "projection/cli/main.ts", "projection/engine/log-reader-thread.ts"], root),
    remove: () => rm(root, { recursive: true, force: true }),
  };
}
