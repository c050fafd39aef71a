// Runs one of the project's TypeScript entries: node deploy/local/bootstrap.mjs <entry> [arguments]
//
// Plain JavaScript without dependencies, since it is what installs them: it checks Node, installs when node_modules is
// missing or does not match package-lock.json, then runs the entry and passes signals and the exit code on.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { withDeathSignal } from "./setup/death-signal.mjs";
import { ensureInstalled } from "./setup/install.mjs";

const OLDEST_NODE = [20, 19];
const PROJECT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..", "..");

/** The same signal again within this time is the same key press, told by both the terminal and npm. Milliseconds. */
const SAME_PRESS_MS = 300;

function requireNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])) return;
  fail(`Node ${OLDEST_NODE.join(".")} or newer is needed; this is ${process.version} (${process.execPath})`);
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

/** In a session of its own, so that a Ctrl-C arrives once, through this process; and it does not outlive this process. */
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
  child.on("error", (error) => fail(`${entry} cannot be run: ${error.message}`));
  child.on("exit", (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));
}

/** npm passes on every signal but SIGKILL. When it is killed, we, or the shell that it started us with, change parent. */
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

/** Name and parent of a process; undefined where there is no /proc. */
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
if (!entry) fail("usage: node deploy/local/bootstrap.mjs <entry.ts> [arguments]");
requireNode();
try {
  await ensureInstalled(PROJECT);
} catch (error) {
  fail(error.message);
}
run(entry, args);
