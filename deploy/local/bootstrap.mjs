// Runs one of the project's TypeScript entries: node deploy/local/bootstrap.mjs <entry> [arguments]
//
// Plain JavaScript without dependencies, because it installs them. It checks the version of Node, installs the packages
// if node_modules does not match package-lock.json, runs the entry, and passes on signals and the exit code.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { withDeathSignal } from "./setup/death-signal.mjs";
import { ensureInstalled } from "./setup/install.mjs";

const OLDEST_NODE = [20, 19];
const PROJECT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..", "..");

/** A second signal within this time is the same key press: the terminal and npm both send it. Milliseconds. */
const SAME_PRESS_MS = 300;

function requireNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])) return;
  fail(
    `This project needs Node ${OLDEST_NODE.join(".")} or newer. Found ${process.version} (${process.execPath}).`,
  );
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

/** Runs the entry in its own session, so that Ctrl-C arrives once, through this process. It ends with this process. */
function run(entry, args) {
  const node = ["--import", "tsx", entry, ...args];
  const [command, rest] = withDeathSignal("SIGTERM", process.execPath, node);
  const child = spawn(command, rest, { cwd: PROJECT, stdio: "inherit", detached: true });
  const lastSent = new Map();
  const pass = (signal) => {
    const now = Date.now();
    if (now - (lastSent.get(signal) ?? 0) < SAME_PRESS_MS) return;
    lastSent.set(signal, now);
    child.kill(signal);
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => pass(signal));
  if (process.env.npm_lifecycle_event) whenOrphaned(() => pass("SIGTERM"));
  child.on("error", (error) => fail(`Cannot run ${entry}: ${error.message}`));
  child.on("exit", (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));
}

/** Detects that npm was killed: SIGKILL is not passed on, but this process, or the shell between, gets a new parent. */
function whenOrphaned(stop) {
  const started = npmProcess();
  const timer = setInterval(() => {
    if (npmProcess() === started) return;
    clearInterval(timer);
    stop();
  }, 500);
  timer.unref();
}

function npmProcess() {
  const parent = statusOf(process.ppid);
  return parent && /^(sh|dash|bash)$/.test(parent.name) ? parent.ppid : process.ppid;
}

/** Name and parent of a process; undefined on systems without /proc. */
function statusOf(pid) {
  try {
    const status = fs.readFileSync(`/proc/${pid}/status`, "utf8");
    return {
      name: /^Name:\t(.*)$/m.exec(status)?.[1] ?? "",
      ppid: Number(/^PPid:\t(\d+)$/m.exec(status)?.[1]),
    };
  } catch {
    return undefined;
  }
}

const [entry, ...args] = process.argv.slice(2);
if (!entry) fail("Usage: node deploy/local/bootstrap.mjs <entry.ts> [arguments]");
requireNode();
try {
  await ensureInstalled(PROJECT);
} catch (error) {
  fail(error.message);
}
run(entry, args);
