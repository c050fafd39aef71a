/** The operator's command line: `npm run clinic -- <noun> <verb> [options]`. */
import { runCli } from "./run-cli.ts";

const { stdin, stdout, stderr, env } = process;

process.exitCode = await runCli(process.argv.slice(2), {
  env,
  stdin,
  out: (line) => stdout.write(`${line}\n`),
  err: (line) => stderr.write(`${line}\n`),
  redraw: stderr.isTTY ? (text) => stderr.write(`\r\x1b[K${text}`) : undefined,
});
