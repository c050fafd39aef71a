/** The command line for operators of the read models and the database: `clinic projection <command> [options]`. */
import { runCli } from "./run-cli.ts";

const { stdout, stderr, env } = process;

// A program that reads the output, such as `head`, may close the pipe early.
stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 2));

function catchInterruption(): AbortSignal {
  const controller = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => controller.abort());
  return controller.signal;
}

process.exitCode = await runCli(process.argv.slice(2), {
  env,
  out: (line) => stdout.write(`${line}\n`),
  showProgress: (text) => stderr.write(stderr.isTTY ? `\r\x1b[K${text}` : `${text}\n`),
  writeError: (text) => stderr.write(text),
  catchInterruption,
});
