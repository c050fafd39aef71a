export const EXIT_CODE = {
  done: 0,
  /** The command failed, or a comparison found differences. */
  failed: 1,
  /** An option, an input file or a setting is wrong. */
  badInput: 2,
  /** A rule refused the command. */
  refused: 3,
  /** A server that the command needs is unavailable. */
  unavailable: 4,
  /** Exit code that shells report for a process ended by SIGINT. */
  interrupted: 130,
} as const;

export class InputError extends Error {
  override readonly name = "InputError";
}

/** A rule refused the command, for example because the object does not exist. */
export class RefusedError extends Error {
  override readonly name = "RefusedError";
}

/** The line of text and the exit code with which a command reports an error. */
export interface Failure {
  exitCode: number;
  line: string;
}

/** Error classes of one command line, each with its exit code. The messages of these errors are printed unchanged. */
export type OwnExitCodes = readonly (readonly [errorClass: new (...args: never[]) => Error, exitCode: number])[];
