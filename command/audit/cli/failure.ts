import { StartError } from "../../../shared/runtime/run-service.ts";
import { failureOf as commandFailureOf, EXIT, type Failure } from "../../cli/framework/failure.ts";
import { TooManyRelatedEvents } from "../related-events/related-events.ts";
import { UnreadableStream } from "../state/replay.ts";

/** What is asked for does not exist, or does not hold. */
export class NotThere extends Error {
  override readonly name = "NotThere";
}

/** What the command line says and ends with: the operator's codes, and 3 for what is not there or does not hold. */
export function failureOf(error: unknown): Failure {
  if (error instanceof NotThere || error instanceof UnreadableStream || error instanceof TooManyRelatedEvents)
    return { code: EXIT.refused, line: error.message };
  if (error instanceof StartError) return { code: EXIT.badInput, line: error.message };
  return commandFailureOf(error);
}
