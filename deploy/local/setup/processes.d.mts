/** Wraps a command line so that its process receives the signal when this process ends. */
export function withDeathSignal(
  signal: NodeJS.Signals,
  command: string,
  args: readonly string[],
): [command: string, args: string[]];

/** Returns the boot and the start time of a live process; undefined if the process does not exist. */
export function readProcessIdentity(pid: number): string | undefined;

/** Returns the live process that holds the lock; undefined if the lock is free. */
export function findLockHolder(file: string): { pid: number } | undefined;

/** Acquires the lock, or returns the live process that holds it. The lock is released when this process ends. */
export function tryLock(
  file: string,
): { release: () => void; holder?: undefined } | { holder: { pid: number }; release?: undefined };

/** Waits at most `waitMs` milliseconds for the lock and acquires it. Returns a function that releases the lock. */
export function waitForLock(
  file: string,
  waitMs: number,
  onWait: (holder: { pid: number }) => void,
): Promise<() => void>;
