import { accessSync, constants } from "node:fs";

const SETPRIV = ["/usr/bin/setpriv", "/bin/setpriv"].find(isExecutable);

/**
 * A command line that runs the given one such that it gets the signal when this process dies, however it dies.
 * Linux only, through util-linux' setpriv, which replaces itself by the command (same pid). Elsewhere the command
 * line comes back unchanged, and what a killed supervisor leaves is stopped by the next start.
 */
export function withDeathSignal(
  signal: NodeJS.Signals,
  command: string,
  args: readonly string[],
): [command: string, args: string[]] {
  if (!SETPRIV) return [command, [...args]];
  return [SETPRIV, ["--pdeathsig", signal.slice("SIG".length), "--", command, ...args]];
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return process.platform === "linux";
  } catch {
    return false;
  }
}
