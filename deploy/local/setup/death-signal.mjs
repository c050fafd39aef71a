// Plain JavaScript without dependencies: the bootstrap needs it before anything is installed.
import fs from "node:fs";

const SETPRIV = ["/usr/bin/setpriv", "/bin/setpriv"].find(isExecutable);

/**
 * Returns a command line that runs the given one so that it receives the signal when this process dies, however it
 * dies. Linux only: util-linux's setpriv sets the signal and replaces itself with the command, so the pid is the same.
 * Elsewhere the command line comes back unchanged; the next start stops the processes that a killed supervisor left.
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
