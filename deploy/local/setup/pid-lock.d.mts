/** Boot and start time of a live process; undefined if there is no such process. */
export function readProcessIdentity(pid: number): string | undefined;

/** The live process that holds the lock; undefined if there is none. */
export function findLockHolder(file: string): { pid: number } | undefined;

/** Takes the lock, or returns its live holder. The lock ends with this process. */
export function tryLock(
  file: string,
): { release: () => void; holder?: undefined } | { holder: { pid: number }; release?: undefined };

/** Waits for the lock, at most `waitMs` milliseconds. */
export function waitForLock(
  file: string,
  waitMs: number,
  onWait: (holder: { pid: number }) => void,
): Promise<() => void>;
