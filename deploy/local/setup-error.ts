/** Something about this machine or its settings that one readable line can say; shown without a stack. */
export class SetupError extends Error {
  override readonly name = "SetupError";
}

/** Runs a command-line entry; a failure ends the process with code 1, as one readable line where that can be. */
export async function runEntry(entry: () => Promise<void>): Promise<void> {
  try {
    await entry();
  } catch (error) {
    console.error(error instanceof SetupError ? error.message : error);
    process.exit(1);
  }
}
