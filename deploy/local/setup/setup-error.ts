/**
 * A problem with this machine or its settings. The message is for the user and is printed without a stack trace.
 */
export class SetupError extends Error {
  override readonly name = "SetupError";
}

/** Returns true if a write failed because the disk or the user's quota is full. */
export function isDiskFullError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && ["ENOSPC", "EDQUOT"].includes(String((error as { code?: unknown }).code));
}

/** Runs the main function of a program. If it fails, prints the error and exits with code 1. */
export async function runEntry(main: () => Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    console.error(formatError(error));
    process.exit(1);
  }
}

function formatError(error: unknown): unknown {
  if (isDiskFullError(error)) return `The disk is full (${error.message}). Free some space, then try again.`;
  return error instanceof SetupError ? error.message : error;
}
