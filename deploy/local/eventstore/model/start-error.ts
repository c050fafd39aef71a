/** The log cannot start. The message is one line for the person who started it. */
export class LogStartError extends Error {
  override readonly name = "LogStartError";
}
