/** Stored data is damaged. The message is one line that names the file, offset, position, problem and remedy. */
export class LogDamagedError extends Error {
  override readonly name = "LogDamagedError";
}

const DAMAGE_REMEDY = "Stop the log and restore its whole directory from a backup.";

/**
 * Creates an error for damaged data.
 *
 * @param location path of the damaged file or directory, and the offset and log position of the damage if known
 * @param problem sentence that describes the damage
 */
export function createDamageError(location: string, problem: string): LogDamagedError {
  return new LogDamagedError(`The log is damaged: ${location}: ${problem} ${DAMAGE_REMEDY}`);
}

/** Error whose message is one line for the operator. */
export class LogStartError extends Error {
  override readonly name = "LogStartError";
}

/** The disk is full. The append wrote nothing, and a later append can succeed. */
export class DiskFullError extends Error {
  override readonly name = "DiskFullError";
}
