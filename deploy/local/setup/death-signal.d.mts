/** Wraps a command line so that its process receives the signal when this process ends. */
export function withDeathSignal(
  signal: NodeJS.Signals,
  command: string,
  args: readonly string[],
): [command: string, args: string[]];
