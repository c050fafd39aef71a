/** The operator's command line: `clinic <noun> <verb> [options]`. */
import { EXIT_CODE } from "./framework/failure.ts";
import { runCli } from "./run-cli.ts";

const { stdin, stdout, stderr, env } = process;

// If the reader of the output closes the pipe, as `head` does, the process ends.
for (const stream of [stdout, stderr]) stream.on("error", () => process.exit(EXIT_CODE.failed));

function createLineWriter(stream: NodeJS.WriteStream) {
  return (line: string) => new Promise<void>((resolve) => stream.write(`${line}\n`, () => resolve()));
}

function catchInterruption(): AbortSignal {
  const controller = new AbortController();
  const signals = ["SIGINT", "SIGTERM"] as const;
  const abort = () => {
    for (const signal of signals) process.off(signal, abort);
    controller.abort();
  };
  for (const signal of signals) process.on(signal, abort);
  return controller.signal;
}

const exitCode = await runCli(process.argv.slice(2), {
  env,
  stdin,
  writeOutput: createLineWriter(stdout),
  writeError: createLineWriter(stderr),
  redraw: stderr.isTTY ? (text) => stderr.write(`\r\x1b[K${text}`) : undefined,
  catchInterruption,
});

// A pending request to an unresponsive event log would keep the process alive.
process.exit(exitCode);
