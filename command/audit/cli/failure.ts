import { StartError } from "../../../shared/runtime/run-service.ts";
import { failureOf as commandFailureOf, EXIT, type Failure } from "../../cli/framework/failure.ts";
import { TooManyRelatedEventsError } from "../related-events/related-events.ts";
import { UnreadableStreamError } from "../state/replay.ts";

/** The requested record does not exist, or the export is not verified. */
export class NotFoundError extends Error {
  override readonly name = "NotFoundError";
}

/**
 * Returns the message and exit code for an error: those of the operator's command line, and 3 for a record that does
 * not exist or an export that is not verified.
 */
export function failureOf(error: unknown): Failure {
  if (
    error instanceof NotFoundError ||
    error instanceof UnreadableStreamError ||
    error instanceof TooManyRelatedEventsError
  )
    return { code: EXIT.refused, line: error.message };
  if (error instanceof StartError) return { code: EXIT.badInput, line: error.message };
  return commandFailureOf(error);
}
