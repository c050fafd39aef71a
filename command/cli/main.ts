/** The operator's command line: `npm run clinic -- <noun> <verb> [options]`. */
import { EXIT } from "./framework/failure.ts";
import { runCli } from "./run-cli.ts";

const { stdin, stdout, stderr, env } = process;

// If the reader of the output closes it, as `head` does, the command ends.
for (const stream of [stdout, stderr]) stream.on("error", () => process.exit(EXIT.broken));

function lineWriter(stream: NodeJS.WriteStream) {
  return (line: string) => new Promise<void>((written) => stream.write(`${line}\n`, () => written()));
}

function interruption(): AbortSignal {
  const controller = new AbortController();
  const signals = ["SIGINT", "SIGTERM"] as const;
  const stop = () => {
    for (const signal of signals) process.off(signal, stop);
    controller.abort();
  };
  for (const signal of signals) process.on(signal, stop);
  return controller.signal;
}

const code = await runCli(process.argv.slice(2), {
  env,
  stdin,
  out: lineWriter(stdout),
  err: lineWriter(stderr),
  redraw: stderr.isTTY ? (text) => stderr.write(`\r\x1b[K${text}`) : undefined,
  interruption,
});

// A call that the event log never answers would keep the process alive.
process.exit(code);
