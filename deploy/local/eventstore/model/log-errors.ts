/** Stored data is damaged. The message is one line with file, offset, position, problem and remedy. */
export class LogDamagedError extends Error {
  override readonly name = "LogDamagedError";
}

const REMEDY = "Stop the log and restore its whole directory from a backup.";

/**
 * Creates an error for damage at an offset of a file.
 *
 * @param position text with the position of the damaged event, or of the last intact event before the damage
 * @param what sentence that describes the problem
 */
export function createDamageError(
  file: string,
  offset: number,
  position: string,
  what: string,
): LogDamagedError {
  return new LogDamagedError(`The log is damaged: ${file}, offset ${offset}, ${position}: ${what} ${REMEDY}`);
}

/** Creates an error for a damaged directory or file, without an offset. */
export function createFileDamageError(file: string, what: string): LogDamagedError {
  return new LogDamagedError(`The log is damaged: ${file}: ${what} ${REMEDY}`);
}

/** The log cannot start. The message is one line for the operator. */
export class LogStartError extends Error {
  override readonly name = "LogStartError";
}
