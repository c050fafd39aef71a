/** Stored data that cannot be trusted. The message is one line: file, place, what is wrong, what to do. */
export class LogDamaged extends Error {
  override readonly name = "LogDamaged";
}

const REMEDY = "Stop the log and restore its whole directory from a backup.";

/**
 * Damage at a place in a file.
 *
 * @param position log position of the damaged event, or of the last intact event before the damage
 */
export function damageAt(file: string, offset: number, position: string, what: string): LogDamaged {
  return new LogDamaged(`The log is damaged: ${file}, offset ${offset}, ${position}: ${what} ${REMEDY}`);
}

/** Damage of the directory or of a file as a whole. */
export function damageOf(file: string, what: string): LogDamaged {
  return new LogDamaged(`The log is damaged: ${file}: ${what} ${REMEDY}`);
}

/** The log cannot start. The message is one line for the person who started it. */
export class LogStartError extends Error {
  override readonly name = "LogStartError";
}
