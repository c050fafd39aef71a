import { CommanderError } from "commander";
import { EXIT_CODE } from "../../cli/framework/failure.ts";
import { toFailure } from "./failure.ts";
import { createProgram } from "./program.ts";
import { type AuditTerminal, escapeControlCharacters } from "./terminal.ts";

/**
 * Runs the auditors' command line once, and prints an error as one line on standard error.
 *
 * @param args the arguments after the program name
 * @returns the exit code: 0 success, 2 invalid input, 3 not found or not verified, 4 event log unavailable, 1 any
 *   other error
 */
export async function runAudit(args: string[], terminal: AuditTerminal): Promise<number> {
  try {
    await createProgram(terminal).parseAsync(args, { from: "user" });
    return EXIT_CODE.done;
  } catch (error) {
    if (error instanceof CommanderError) return reportCommanderError(error, terminal);
    const failure = toFailure(error);
    terminal.writeError(`audit: ${escapeControlCharacters(failure.line)}`);
    return failure.exitCode;
  }
}

/**
 * Prints an error of the command-line parser and returns the exit code. Help that the user requested is not an error.
 */
function reportCommanderError({ code, exitCode, message }: CommanderError, terminal: AuditTerminal): number {
  if (exitCode === 0) return EXIT_CODE.done;
  const line = code === "commander.help" ? "no command given; see --help" : message;
  terminal.writeError(`audit: ${line.replace(/^error: /, "").replaceAll("\n", " ")}`);
  return EXIT_CODE.badInput;
}
