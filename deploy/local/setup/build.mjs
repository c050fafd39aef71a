// Plain JavaScript without dependencies, because the bootstrap imports this file before the packages are installed.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { waitForLock } from "./processes.mjs";

/** Limits the wait while another process compiles the project. */
const BUILD_TIMEOUT_MS = 2 * 60_000;

/** Limits the error message, because on a full disk the compiler prints two lines per file. */
const MAX_REPORTED_LINES = 10;

const SOURCE_FOLDERS = ["bin", "command", "deploy", "projection", "query-api", "shared"];
const ASSET_FOLDERS = [
  "command/audit/page/assets",
  "command/cli/import/examples",
  "projection/migrations",
  "query-api/docs/assets",
  "query-api/partner-page/assets",
  "shared/page/assets",
];

/**
 * Files that determine the output, in addition to the sources. package-lock.json contains the version of the compiler.
 */
const SETTINGS = ["package-lock.json", "tsconfig.json", "tsconfig.build.json", "tsconfig.local.json"];

/**
 * Compiles the project into the folder `.build` if a source file has changed since the last compilation. A lock prevents
 * two compilations at the same time. The compilation does not check types. If it fails, the previous output stays.
 * Returns the folder.
 * @throws {Error} the messages of the compiler
 */
export async function ensureBuilt(project) {
  const buildFolder = path.join(project, ".build");
  if (isCurrent(project, buildFolder)) return buildFolder;
  const release = await waitForLock(path.join(project, ".local", "build.lock"), BUILD_TIMEOUT_MS, () => undefined);
  try {
    if (!isCurrent(project, buildFolder)) compile(project, buildFolder);
  } finally {
    release();
  }
  return buildFolder;
}

/** Links the files that the compiled code needs and that the compiler does not write. */
export function linkAssets(project, buildFolder) {
  const modules = listSources(project).filter((name) => name.endsWith(".mjs"));
  for (const name of [...ASSET_FOLDERS, ...modules]) {
    fs.mkdirSync(path.dirname(path.join(buildFolder, name)), { recursive: true });
    fs.symlinkSync(path.join(project, name), path.join(buildFolder, name));
  }
}

function isCurrent(project, buildFolder) {
  const file = path.join(buildFolder, "hash");
  return fs.existsSync(file) && fs.readFileSync(file, "utf8") === hashSources(project);
}

/**
 * Hashes the compiler settings, the sources and the project's path, which is part of the links in the output. Does not
 * use file times, because switching between branches can give a file an older time.
 */
function hashSources(project) {
  const hash = createHash("sha256").update(`${project}\0`);
  for (const name of [...SETTINGS, ...listSources(project)])
    hash
      .update(`${name}\0`)
      .update(fs.readFileSync(path.join(project, name)))
      .update("\0");
  return hash.digest("hex");
}

/** Omits hidden files, such as an editor's lock files. The compiler ignores them too. */
function listSources(project) {
  const list = (folder) => fs.readdirSync(path.join(project, folder), { recursive: true, encoding: "utf8" });
  return SOURCE_FOLDERS.flatMap((folder) => list(folder).map((name) => path.join(folder, name)))
    .filter((name) => /\.(ts|mjs)$/.test(name) && !path.basename(name).startsWith("."))
    .sort();
}

/** Replaces the previous output only after the compilation, so that programs never load incomplete output. */
function compile(project, buildFolder) {
  const [next, former] = [`${buildFolder}.new`, `${buildFolder}.old`];
  const hash = hashSources(project); // before the compiler reads the sources, because they can change meanwhile
  for (const folder of [next, former]) fs.rmSync(folder, { recursive: true, force: true });
  try {
    runCompiler(project, next);
    linkAssets(project, next);
    fs.writeFileSync(path.join(next, "hash"), hash);
  } catch (error) {
    fs.rmSync(next, { recursive: true, force: true }); // on a full disk, it would occupy the remaining space
    throw error;
  }
  if (fs.existsSync(buildFolder)) fs.renameSync(buildFolder, former);
  fs.renameSync(next, buildFolder);
  fs.rmSync(former, { recursive: true, force: true });
  // Until the texts are written, the executable loads its code to show its help.
  const writer = path.join(buildFolder, "bin", "write-texts.js");
  if (fs.existsSync(writer)) spawnSync(process.execPath, [writer], { stdio: ["ignore", "ignore", "inherit"] });
}

function runCompiler(project, output) {
  const compiler = path.join(project, "node_modules", "typescript", "bin", "tsc");
  const args = [compiler, "-p", "tsconfig.local.json", "--outDir", output, "--pretty", "false"];
  const { status, error, stdout, stderr } = spawnSync(process.execPath, args, { cwd: project, encoding: "utf8" });
  if (error) throw error;
  if (status === 0) return;
  const lines = `${stdout}${stderr}`.trim().split("\n").slice(0, MAX_REPORTED_LINES);
  throw new Error(["The project cannot be compiled. Correct these errors and try again:", ...lines].join("\n"));
}
