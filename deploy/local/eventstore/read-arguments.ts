import { parseArgs } from "node:util";
import { z } from "zod";
import { LogStartError } from "./model/log-errors.ts";

const argumentsSchema = z.object({
  dir: z.string({ error: "--dir is missing. It sets the directory of the log" }).min(1, "--dir must not be empty"),
  port: z
    .string({ error: "--port is missing. It sets the port to listen on; 0 selects a free port" })
    .regex(/^\d{1,5}$/, "--port must be a number")
    .transform(Number)
    .refine((port) => port <= 65_535, "--port must be at most 65535"),
  host: z.string().min(1, "--host must not be empty").default("127.0.0.1"),
});

/**
 * Parses the command line of the embedded log.
 *
 * @throws LogStartError with one line that lists all missing or invalid arguments
 */
export function readArguments(args: string[]): z.infer<typeof argumentsSchema> {
  const stringOption = { type: "string" } as const;
  const parseResult = argumentsSchema.safeParse(parseOptions());
  if (parseResult.success) return parseResult.data;
  throw new LogStartError(parseResult.error.issues.map((issue) => issue.message).join("; "));

  function parseOptions() {
    try {
      return parseArgs({ args, options: { dir: stringOption, port: stringOption, host: stringOption } }).values;
    } catch (error) {
      throw new LogStartError((error as Error).message);
    }
  }
}
