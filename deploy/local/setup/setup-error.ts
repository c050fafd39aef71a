/** Something about this machine or its settings that one readable line can say; shown without a stack. */
export class SetupError extends Error {
  override readonly name = "SetupError";
}

/** Tells whether a file could not be written because the disk is full, or the user's share of it. */
export function isDiskFull(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && ["ENOSPC", "EDQUOT"].includes(String((error as { code?: unknown }).code));
}

/** Runs a command-line entry; a failure ends the process with code 1, as one readable line where that can be. */
export async function runEntry(entry: () => Promise<void>): Promise<void> {
  try {
    await entry();
  } catch (error) {
    console.error(describe(error));
    process.exit(1);
  }
}

function describe(error: unknown): unknown {
  if (isDiskFull(error)) return `The disk is full (${error.message}): free some space, then try again`;
  return error instanceof SetupError ? error.message : error;
}
