/** Boot and start time of a live process, undefined when there is none. */
export function processIdentity(pid: number): string | undefined;

/** The live process that holds the lock, if any. */
export function lockHolder(file: string): { pid: number } | undefined;

/** Takes the lock, or names its live holder. The lock dies with this process. */
export function tryLock(
  file: string,
): { release: () => void; holder?: undefined } | { holder: { pid: number }; release?: undefined };

/** Waits for the lock, waitMs at the most. */
export function waitForLock(
  file: string,
  waitMs: number,
  onWait: (holder: { pid: number }) => void,
): Promise<() => void>;
