import { DomainError } from "../../../shared/domain/domain-error.ts";
import { LogUnavailableError, WrongExpectedRevisionError } from "../../../shared/eventstore/log.ts";
import { isAccessDenied } from "../../../shared/eventstore/reach.ts";
import { DataKeyError, KeyStoreUnavailableError } from "../../../shared/personal-data/data-keys.ts";
import { ConfigError } from "../../../shared/runtime/config.ts";
import { StartError } from "../../../shared/runtime/run-service.ts";
import type { OptionProblem } from "./command.ts";

/** Exit codes of the command-line programs. */
export const EXIT_CODE = {
  done: 0,
  failed: 1,
  badInput: 2,
  refused: 3,
  logUnavailable: 4,
  /** Exit code that shells report for a process ended by SIGINT. */
  interrupted: 130,
} as const;

/** The operator's options or input file are invalid. */
export class InputError extends Error {
  override readonly name = "InputError";
}

/** A server that the command needs does not respond. The message names the server and its setting. */
export class ServerUnavailableError extends Error {
  override readonly name = "ServerUnavailableError";
}

/** An error as the command line reports it: one line of text, and the exit code. */
export interface Failure {
  exitCode: number;
  line: string;
}

/** Converts an error to its line of text and its exit code. */
export function describeFailure(error: unknown): Failure {
  if (error instanceof InputError || error instanceof ConfigError || error instanceof StartError)
    return { exitCode: EXIT_CODE.badInput, line: error.message };
  if (error instanceof DomainError)
    return { exitCode: EXIT_CODE.refused, line: `refused: ${error.message} (${error.code})` };
  if (error instanceof WrongExpectedRevisionError)
    return { exitCode: EXIT_CODE.refused, line: "refused: another process changed the same object; try again" };
  if (error instanceof LogUnavailableError)
    return {
      exitCode: EXIT_CODE.logUnavailable,
      line: "the event log is unavailable; check EVENTSTORE_URL and try again",
    };
  if (error instanceof KeyStoreUnavailableError)
    return { exitCode: EXIT_CODE.logUnavailable, line: `${error.message}; check DATABASE_URL and try again` };
  if (error instanceof DataKeyError) return { exitCode: EXIT_CODE.badInput, line: error.message };
  if (error instanceof ServerUnavailableError) return { exitCode: EXIT_CODE.logUnavailable, line: error.message };
  if (isAccessDenied(error))
    return {
      exitCode: EXIT_CODE.badInput,
      line: "the event log denies access; check the user in EVENTSTORE_URL and the rights of this user",
    };
  const line = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { exitCode: EXIT_CODE.failed, line: line.replaceAll("\n", " ") };
}

/**
 * Formats problems as one line.
 *
 * @param getOptionName returns the name of an option as the operator types it
 */
export function formatProblems(problems: OptionProblem[], getOptionName: (option: string) => string): string {
  return problems.map(({ option, message }) => `${getOptionName(option)} ${message}`).join("; ");
}
