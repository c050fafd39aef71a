import { ConfigError } from "../../../shared/runtime/config.ts";

/**
 * A problem with this machine or its settings. The message is for the user and is printed without a stack trace.
 */
export class SetupError extends Error {
  override readonly name = "SetupError";
}

/** Runs the main function of a program. If it fails, prints the error and exits with code 1. */
export async function runEntry(main: () => Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    console.error(error instanceof SetupError || error instanceof ConfigError ? error.message : error);
    process.exit(1);
  }
}
