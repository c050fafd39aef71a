// Runs a TypeScript program of the project: node deploy/local/bootstrap.mjs [--compiled] <entry> [arguments]
//
// Checks the system and the version of Node, installs the packages if node_modules does not match package-lock.json,
// and runs the program. With --compiled, compiles the project if a source file has changed, and runs the compiled
// program, which starts faster. Without it, runs the program from source. Forwards signals to the program, and exits
// with its exit code. This file is plain JavaScript without dependencies, because it runs before the packages are
// installed.
import { spawn } from "node:child_process";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { ensureBuilt } from "./setup/build.mjs";
import { ensureInstalled } from "./setup/install.mjs";
import { withDeathSignal } from "./setup/processes.mjs";

const MIN_NODE_VERSION = [20, 19];
const PROJECT_FOLDER = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..", "..");

/** Milliseconds in which a second signal is ignored. After Ctrl-C, both the terminal and npm send a signal. */
const REPEATED_SIGNAL_WINDOW_MS = 300;

function requireSupportedSystem() {
  if (process.platform === "win32") exitWithError("This project does not run on Windows. Use Linux in WSL 2.");
  const [major, minor] = process.versions.node.split(".").map(Number);
  const [minMajor, minMinor] = MIN_NODE_VERSION;
  if (major > minMajor || (major === minMajor && minor >= minMinor)) return;
  const found = `${process.version} (${process.execPath})`;
  exitWithError(`This project needs Node ${MIN_NODE_VERSION.join(".")} or newer. Found ${found}.`);
}

function exitWithError(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

/**
 * Runs the program as a child process, which ends if this process ends. The child has its own session, so only this
 * process receives the terminal's signal after Ctrl-C.
 */
function runProgram(nodeArgs, env) {
  const [command, commandArgs] = withDeathSignal("SIGTERM", process.execPath, nodeArgs);
  const child = spawn(command, commandArgs, { cwd: PROJECT_FOLDER, env, stdio: "inherit", detached: true });
  const lastSentAt = new Map();
  const forward = (signal) => {
    const now = Date.now();
    if (now - (lastSentAt.get(signal) ?? 0) < REPEATED_SIGNAL_WINDOW_MS) return;
    lastSentAt.set(signal, now);
    child.kill(signal);
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => forward(signal));
  if (process.env.npm_lifecycle_event) onNpmDeath(() => forward("SIGTERM"));
  child.on("error", (error) => exitWithError(`Cannot run ${command}: ${error.message}`));
  child.on("exit", (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));
}

/** Calls `onDeath` if npm, the parent of this process, is killed with SIGKILL. npm cannot forward this signal. */
function onNpmDeath(onDeath) {
  const npmPid = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === npmPid) return;
    clearInterval(timer);
    onDeath();
  }, 500);
  timer.unref();
}

const isCompiled = process.argv[2] === "--compiled";
const [entry, ...args] = process.argv.slice(isCompiled ? 3 : 2);
if (!entry) exitWithError("Usage: node deploy/local/bootstrap.mjs [--compiled] <entry.ts> [arguments]");
requireSupportedSystem();
try {
  await ensureInstalled(PROJECT_FOLDER);
  if (isCompiled) {
    const build = await ensureBuilt(PROJECT_FOLDER);
    const program = path.join(build, entry.replace(/\.ts$/, ".js"));
    const env = { ...process.env, PROJECT_BUILD: build, CLINIC_PROGRAM: "npm run clinic --" };
    // The executable `clinic` sets the same size of the young generation.
    runProgram(["--enable-source-maps", "--max-semi-space-size=64", program, ...args], env);
  } else {
    runProgram(["--import", "tsx", entry, ...args], process.env);
  }
} catch (error) {
  exitWithError(error.message);
}
