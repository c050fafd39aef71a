import { CommanderError } from "commander";
import { EXIT, failureOf } from "./framework/failure.ts";
import type { Terminal } from "./framework/run-command.ts";
import { createProgram } from "./program.ts";

/**
 * Runs one command line.
 *
 * @returns the exit code: 0 done, 2 bad input, 3 refused by the domain, 4 event log out of reach, 130 interrupted,
 *   1 anything else
 */
export async function runCli(words: string[], terminal: Terminal): Promise<number> {
  let code: number = EXIT.done;
  const program = createProgram(terminal, (given) => {
    code = given;
  });
  try {
    await program.parseAsync(words, { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return await endOfCommander(error, terminal);
    const failure = failureOf(error);
    await terminal.err(`clinic: ${failure.line}`);
    return failure.code;
  }
}

/** Help that was asked for is no error; help that was shown since a word is missing is one. */
async function endOfCommander(
  { code, exitCode, message }: CommanderError,
  terminal: Terminal,
): Promise<number> {
  if (exitCode === 0) return EXIT.done;
  const line = code === "commander.help" ? "a command is missing; see --help" : message;
  await terminal.err(`clinic: ${line.replace(/^error: /, "").replaceAll("\n", " ")}`);
  return EXIT.badInput;
}
