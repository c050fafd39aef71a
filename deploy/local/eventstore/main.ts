/**
 * Runs the embedded log as a process: `main.ts --dir <directory> --port <port> [--host <host>]`.
 *
 * Prints `listening <port>` on standard output when it is ready, and all other output on standard error. Exits with
 * status 0 after SIGTERM or SIGINT. If the log cannot start or the disk fails, prints one line and exits with status 1.
 */
import { parseArgs } from "node:util";
import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { z } from "zod";
import { LogStartError } from "./model/log-errors.ts";
import { startLogServer } from "./server.ts";

const argumentsSchema = z.object({
  dir: z.string({ error: "--dir is missing. It sets the directory of the log" }).min(1, "--dir must not be empty"),
  port: z
    .string({ error: "--port is missing. It sets the port to listen on; 0 selects a free port" })
    .regex(/^\d{1,5}$/, "--port must be a number")
    .transform(Number)
    .refine((port) => port <= 65_535, "--port must be at most 65535"),
  host: z.string().min(1, "--host must not be empty").default("127.0.0.1"),
});

/** @throws LogStartError with one line that lists all missing or invalid arguments */
function readArguments(): z.infer<typeof argumentsSchema> {
  const { values } = parseArgs({
    options: { dir: { type: "string" }, port: { type: "string" }, host: { type: "string" } },
  });
  const parseResult = argumentsSchema.safeParse(values);
  if (parseResult.success) return parseResult.data;
  throw new LogStartError(parseResult.error.issues.map((issue) => issue.message).join("; "));
}

function exitWithError(error: unknown): never {
  const message = error instanceof Error ? error.message : String(error);
  console.error(`The embedded log stopped: ${message.replaceAll("\n", " ")}`);
  process.exit(1);
}

// Without this setting, gRPC prints a second error line if the port is in use.
setLogVerbosity(logVerbosity.NONE);

try {
  const server = await startLogServer({ ...readArguments(), printLine: (line) => console.error(line) });
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
