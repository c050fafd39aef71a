import { DomainError } from "../domain/domain-error.ts";
import { isAccessDenied, LogUnavailableError, WrongExpectedRevisionError } from "../eventstore/log.ts";
import { DataKeyError, KeyStoreUnavailableError } from "../personal-data/data-keys.ts";
import { ConfigError } from "../runtime/config.ts";
import { isPostgresUnavailable } from "../runtime/failures.ts";
import { ServerUnavailableError, StartError } from "../runtime/run-service.ts";
import { EXIT_CODE, type Failure, InputError, type OwnExitCodes, RefusedError } from "./failure.ts";

/** Converts an error to its line of text and its exit code. */
export function describeFailure(error: unknown, ownExitCodes: OwnExitCodes = []): Failure {
  const { badInput, refused, unavailable, failed } = EXIT_CODE;
  if (error instanceof DomainError) return { exitCode: refused, line: `refused: ${error.message} (${error.code})` };
  if (error instanceof WrongExpectedRevisionError)
    return { exitCode: refused, line: "refused: another process changed the same object; try again" };
  if (error instanceof LogUnavailableError)
    return { exitCode: unavailable, line: "the event log is unavailable; check EVENTSTORE_URL and try again" };
  if (error instanceof KeyStoreUnavailableError)
    return { exitCode: unavailable, line: `${error.message}; check DATABASE_URL and try again` };
  const exitCodes: OwnExitCodes = [
    ...ownExitCodes,
    [InputError, badInput],
    [ConfigError, badInput],
    [DataKeyError, badInput],
    [RefusedError, refused],
    [ServerUnavailableError, unavailable],
    [StartError, badInput],
  ];
  const [, exitCode] = exitCodes.find(([errorClass]) => error instanceof errorClass) ?? [];
  // In a checkout, the missing settings come from the local stack.
  const advice = error instanceof ConfigError ? process.env.CLINIC_SETTINGS_ADVICE : undefined;
  if (exitCode !== undefined && advice) return { exitCode, line: advice };
  if (exitCode !== undefined) return { exitCode, line: toOneLine((error as Error).message) };
  if (isAccessDenied(error))
    return {
      exitCode: badInput,
      line: "the event log denies access; check the user in EVENTSTORE_URL and the rights of this user",
    };
  // The error of a file has the same codes, and a path.
  if (isPostgresUnavailable(error) && !("path" in (error as Error)))
    return {
      exitCode: unavailable,
      line: `Postgres is unavailable (${toReason(error)}); check DATABASE_URL and try again`,
    };
  return { exitCode: failed, line: error instanceof Error ? `${error.name}: ${toReason(error)}` : toReason(error) };
}

function toReason(error: unknown): string {
  if (error instanceof AggregateError && error.message === "") return error.errors.map(toReason).join(", ");
  return toOneLine(error instanceof Error ? error.message : String(error));
}

const toOneLine = (text: string) => text.replaceAll("\n", " ");
