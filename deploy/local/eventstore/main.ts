/**
 * Runs the embedded log as a process of its own: `main.ts --dir <directory> --port <port> [--host <host>]`.
 *
 * Prints `listening <port>` on standard output when it is ready, everything else on standard error. Ends with
 * status 0 after SIGTERM or SIGINT, and with 1 and one line where it cannot start or its disk fails.
 */
import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { readArguments } from "./read-arguments.ts";
import { startLogServer } from "./server.ts";

function exitWith(error: unknown): never {
  const message = error instanceof Error ? error.message : String(error);
  console.error(`The embedded log stopped: ${message.replaceAll("\n", " ")}`);
  process.exit(1);
}

// gRPC would print a line of its own for a port in use.
setLogVerbosity(logVerbosity.NONE);

try {
  const server = await startLogServer({
    ...readArguments(process.argv.slice(2)),
    log: (line) => console.error(line),
  });
  void server.failed.then(async (error) => {
    // A disk that failed can also make the stop fail; the first reason is the one that counts.
    await server.stop().catch(() => undefined);
    exitWith(error);
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, () => server.stop().then(() => process.exit(0), exitWith));
  }
  console.log(`listening ${server.port}`);
} catch (error) {
  exitWith(error);
}
