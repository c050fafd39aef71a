import { DomainError } from "../../../shared/domain/domain-error.ts";
import { LogUnavailable, WrongExpectedRevision } from "../../../shared/eventstore/log.ts";
import { ConfigError } from "../../../shared/runtime/config.ts";
import type { OptionProblem } from "./command.ts";

/** What the process ends with. */
export const EXIT = {
  done: 0,
  broken: 1,
  badInput: 2,
  refused: 3,
  logUnavailable: 4,
  /** As shells report a process that SIGINT ended. */
  interrupted: 130,
} as const;

/** What the operator gave is wrong. */
export class InputError extends Error {
  override readonly name = "InputError";
}

/** What went wrong, as one line, and the exit code that stands for it. */
export interface Failure {
  code: number;
  line: string;
}

export function failureOf(error: unknown): Failure {
  if (error instanceof InputError || error instanceof ConfigError)
    return { code: EXIT.badInput, line: error.message };
  if (error instanceof DomainError)
    return { code: EXIT.refused, line: `refused: ${error.message} (${error.code})` };
  if (error instanceof WrongExpectedRevision)
    return { code: EXIT.refused, line: "refused: it is being changed by somebody else; try again" };
  if (error instanceof LogUnavailable)
    return { code: EXIT.logUnavailable, line: "the event log is out of reach" };
  const line = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { code: EXIT.broken, line: line.replaceAll("\n", " ") };
}

/** @param nameOf how an option is written where the reader gave it */
export function problemsLine(problems: OptionProblem[], nameOf: (option: string) => string): string {
  return problems.map(({ option, message }) => `${nameOf(option)} ${message}`).join("; ");
}
