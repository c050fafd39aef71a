import { DomainError } from "../../../shared/domain/domain-error.ts";
import { LogUnavailableError, WrongExpectedRevisionError } from "../../../shared/eventstore/log.ts";
import { ConfigError } from "../../../shared/runtime/config.ts";
import type { OptionProblem } from "./command.ts";

/** Exit codes of the command lines. */
export const EXIT = {
  done: 0,
  broken: 1,
  badInput: 2,
  refused: 3,
  logUnavailable: 4,
  /** The code that shells report for a process ended by SIGINT. */
  interrupted: 130,
} as const;

/** Invalid input of the operator. */
export class InputError extends Error {
  override readonly name = "InputError";
}

/** One line that describes an error, and the exit code for it. */
export interface Failure {
  code: number;
  line: string;
}

export function failureOf(error: unknown): Failure {
  if (error instanceof InputError || error instanceof ConfigError)
    return { code: EXIT.badInput, line: error.message };
  if (error instanceof DomainError)
    return { code: EXIT.refused, line: `refused: ${error.message} (${error.code})` };
  if (error instanceof WrongExpectedRevisionError)
    return { code: EXIT.refused, line: "refused: another process changed the same object; try again" };
  if (error instanceof LogUnavailableError)
    return {
      code: EXIT.logUnavailable,
      line: "the event log is unavailable; check EVENTSTORE_URL and try again",
    };
  const line = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { code: EXIT.broken, line: line.replaceAll("\n", " ") };
}

/** @param nameOf returns the name of an option as the operator writes it */
export function problemsLine(problems: OptionProblem[], nameOf: (option: string) => string): string {
  return problems.map(({ option, message }) => `${nameOf(option)} ${message}`).join("; ");
}
