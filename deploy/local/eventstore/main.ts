/**
 * Runs the embedded log as a process of its own: `main.ts --dir <directory> --port <port> [--host <host>]`.
 *
 * Prints `listening <port>` on standard output when it is ready, everything else on standard error. Ends with
 * status 0 after SIGTERM or SIGINT, and with 1 and one line where it cannot start or its disk fails.
 */
import { parseArgs } from "node:util";
import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import { z } from "zod";
import { LogStartError } from "./database.ts";
import { startLogServer } from "./server.ts";

const argumentsSchema = z.object({
  dir: z.string({ error: "--dir is missing: the directory of the log" }).min(1, "--dir must not be empty"),
  port: z
    .string({ error: "--port is missing: the port to listen on, 0 for a free one" })
    .regex(/^\d{1,5}$/, "--port must be a number")
    .transform(Number)
    .refine((port) => port <= 65_535, "--port must be at most 65535"),
  host: z.string().min(1, "--host must not be empty").default("127.0.0.1"),
});

function readArguments(): z.infer<typeof argumentsSchema> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { dir: text, port: text, host: text } });
  const result = argumentsSchema.safeParse(values);
  if (result.success) return result.data;
  throw new LogStartError(result.error.issues.map((issue) => issue.message).join("; "));
}

function exitWith(error: unknown): never {
  const message = error instanceof Error ? error.message : String(error);
  console.error(`The embedded log stopped: ${message.replaceAll("\n", " ")}`);
  process.exit(1);
}

// gRPC would print a line of its own for a port in use.
setLogVerbosity(logVerbosity.NONE);

try {
  const server = await startLogServer({ ...readArguments(), log: (line) => console.error(line) });
  void server.failed.then(async (error) => {
    await server.stop();
    exitWith(error);
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, () => server.stop().then(() => process.exit(0), exitWith));
  }
  console.log(`listening ${server.port}`);
} catch (error) {
  exitWith(error);
}
