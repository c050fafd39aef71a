/**
 * Runs the embedded log as a process: `main.ts --dir <directory> --port <port> [--host <host>]`.
 *
 * Prints `listening <port>` on standard output when it is ready, and all other output on standard error. Exits with
 * status 0 after SIGTERM or SIGINT. If the log cannot start or the disk fails, prints one line and exits with status 1.
 */
import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { readArguments } from "./read-arguments.ts";
import { startLogServer } from "./server.ts";

function exitWithError(error: unknown): never {
  const message = error instanceof Error ? error.message : String(error);
  console.error(`The embedded log stopped: ${message.replaceAll("\n", " ")}`);
  process.exit(1);
}

// Without this setting, gRPC prints a second error line if the port is in use.
setLogVerbosity(logVerbosity.NONE);

try {
  const server = await startLogServer({
    ...readArguments(process.argv.slice(2)),
    printLine: (line) => console.error(line),
  });
  void server.failurePromise.then(async (error) => {
    // After a disk failure, stopping the server can fail as well. Only the disk failure is reported.
    await server.stop().catch(() => undefined);
    exitWithError(error);
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, () => server.stop().then(() => process.exit(0), exitWithError));
  }
  console.log(`listening ${server.port}`);
} catch (error) {
  exitWithError(error);
}
