import { createHash } from "node:crypto";
import path from "node:path";
import { pathToFileURL } from "node:url";

/** The folder of the running code: the project's folder, or a folder with the compiled project. */
const CODE_FOLDER = path.resolve(import.meta.dirname, "..", "..", "..");

/** The project's folder. The compiled code runs in its subfolder `.build`. */
export const PROJECT_FOLDER = path.basename(CODE_FOLDER) === ".build" ? path.dirname(CODE_FOLDER) : CODE_FOLDER;

/**
 * Returns a folder in /var/lib for files that the Postgres user cannot access in the given folder. The name contains a
 * hash of the given path, so that several clones do not share a folder.
 */
export function getRelocatedFolder(folder: string): string {
  return `/var/lib/clinic-service-${createHash("sha256").update(path.resolve(folder)).digest("hex").slice(0, 12)}`;
}

/** Returns the path relative to the current folder. Returns the path unchanged if it is outside the current folder. */
export function toRelativePath(file: string): string {
  const relativePath = path.relative(process.cwd(), file);
  return relativePath.startsWith("..") ? file : relativePath;
}

export type LocalPaths = ReturnType<typeof getLocalPaths>;

/**
 * Returns the file paths of a local stack.
 *
 * @param root the stack's folder: `.local`, or the temporary folder of a test
 */
export function getLocalPaths(root: string) {
  const join = (name: string) => path.join(root, name);
  return {
    root,
    version: join("version"),
    secrets: join("secrets.json"),
    lock: join("lock"),
    stack: join("stack.json"),
    demo: join("demo-credentials.json"),
    postgres: join("postgres"),
    nats: join("nats"),
    eventstore: join("eventstore"),
    logs: join("logs"),
    log: (name: string) => join(`logs/${name}.log`),
  };
}

/** Returns the folder that `npm start` uses: LOCAL_DIR, or `.local` in the project. */
export function getLocalRoot(env: NodeJS.ProcessEnv): string {
  return path.resolve(PROJECT_FOLDER, env.LOCAL_DIR ?? ".local");
}

/**
 * Returns the command line that runs a TypeScript entry file of the project. If PROJECT_BUILD names the folder of the
 * compiled project, the command line runs the compiled file, which starts a second faster.
 *
 * @param entryFile path relative to the project's folder
 */
export function buildNodeCommand(entryFile: string, args: readonly string[] = []): { command: string; args: string[] } {
  const options = process.env.PROJECT_BUILD
    ? ["--enable-source-maps"]
    : ["--import", pathToFileURL(path.join(PROJECT_FOLDER, "deploy/local/setup/tsx.mjs")).href];
  return { command: process.execPath, args: [...options, resolveEntry(entryFile), ...args] };
}

export function resolveEntry(entryFile: string): string {
  const folder = process.env.PROJECT_BUILD;
  return folder ? path.resolve(folder, entryFile.replace(/\.ts$/, ".js")) : path.resolve(PROJECT_FOLDER, entryFile);
}
