// Plain JavaScript without dependencies, because the bootstrap imports this file before the packages are installed.
import fs from "node:fs";

const SETPRIV = ["/usr/bin/setpriv", "/bin/setpriv"].find(isExecutable);

/**
 * Wraps a command line so that its process receives a signal when this process ends, even if this process is killed.
 *
 * This works only on Linux, with setpriv from util-linux. setpriv registers the signal and then replaces itself with
 * the command, so the pid stays the same. On other systems, the command line is returned unchanged.
 */
export function withDeathSignal(signal, command, args) {
  if (!SETPRIV) return [command, [...args]];
  return [SETPRIV, ["--pdeathsig", signal.slice("SIG".length), "--", command, ...args]];
}

function isExecutable(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return process.platform === "linux";
  } catch {
    return false;
  }
}
