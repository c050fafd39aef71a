/** A command line that runs the given one so that it receives the signal when this process dies. */
export function withDeathSignal(
  signal: NodeJS.Signals,
  command: string,
  args: readonly string[],
): [command: string, args: string[]];
