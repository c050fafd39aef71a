import { StartError } from "../../../shared/runtime/run-service.ts";
import { EXIT_CODE, type Failure, describeFailure as toCommandFailure } from "../../cli/framework/failure.ts";
import { StreamNotFoundError } from "../queries/audit-query.ts";
import { TooManyRelatedEventsError } from "../related-events/related-events.ts";
import { UnreadableStreamError } from "../state/replay.ts";
import { TreeHeadError } from "../tree/published-heads.ts";

/** The requested clinic, event or tree head does not exist. */
export class NotFoundError extends Error {
  override readonly name = "NotFoundError";
}

/** The export is altered or incomplete, or is not the expected export. */
export class NotVerifiedError extends Error {
  override readonly name = "NotVerifiedError";
}

const REFUSAL_ERRORS = [
  NotFoundError,
  StreamNotFoundError,
  NotVerifiedError,
  UnreadableStreamError,
  TooManyRelatedEventsError,
  TreeHeadError,
];

/** Converts an error to its message and the exit code of the command line. */
export function toFailure(error: unknown): Failure {
  if (error instanceof StartError) return { exitCode: EXIT_CODE.badInput, line: error.message };
  if (error instanceof Error && REFUSAL_ERRORS.some((errorClass) => error instanceof errorClass))
    return { exitCode: EXIT_CODE.refused, line: error.message };
  return toCommandFailure(error);
}
