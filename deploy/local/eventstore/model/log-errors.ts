/** Stored data is damaged. The message is one line: file, offset, position, problem and remedy. */
export class LogDamagedError extends Error {
  override readonly name = "LogDamagedError";
}

const REMEDY = "Stop the log and restore its whole directory from a backup.";

/**
 * Creates the error for damage at an offset of a file.
 *
 * @param position log position of the damaged event, or of the last intact event before the damage
 */
export function damageAt(file: string, offset: number, position: string, what: string): LogDamagedError {
  return new LogDamagedError(`The log is damaged: ${file}, offset ${offset}, ${position}: ${what} ${REMEDY}`);
}

/** Creates the error for a directory or file that is damaged as a whole. */
export function damageOf(file: string, what: string): LogDamagedError {
  return new LogDamagedError(`The log is damaged: ${file}: ${what} ${REMEDY}`);
}

/** The log cannot start. The message is one line for the user. */
export class LogStartError extends Error {
  override readonly name = "LogStartError";
}
