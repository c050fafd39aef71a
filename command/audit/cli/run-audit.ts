import { CommanderError } from "commander";
import { EXIT } from "../../cli/framework/failure.ts";
import { failureOf } from "./failure.ts";
import { createProgram } from "./program.ts";
import { type AuditTerminal, printable } from "./terminal.ts";

/**
 * Runs one command line.
 *
 * @returns the exit code: 0 done, 2 bad input, 3 not found or not verified, 4 event log unavailable, 1 any other
 *   error
 */
export async function runAudit(words: string[], terminal: AuditTerminal): Promise<number> {
  try {
    await createProgram(terminal).parseAsync(words, { from: "user" });
    return EXIT.done;
  } catch (error) {
    if (error instanceof CommanderError) return endOfCommander(error, terminal);
    const failure = failureOf(error);
    terminal.err(`audit: ${printable(failure.line)}`);
    return failure.code;
  }
}

/** Requested help is a success. Help that is shown because a command is missing is an error. */
function endOfCommander({ code, exitCode, message }: CommanderError, terminal: AuditTerminal): number {
  if (exitCode === 0) return EXIT.done;
  const line = code === "commander.help" ? "no command given; see --help" : message;
  terminal.err(`audit: ${line.replace(/^error: /, "").replaceAll("\n", " ")}`);
  return EXIT.badInput;
}
