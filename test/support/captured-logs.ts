import fs from "node:fs";

/** Captures everything that this process logs, from now on. */
export interface CapturedLogs {
  /** All captured text: log lines and standard error. */
  text(): string;
  /** Lets logs through again. */
  stop(): void;
}

type Written = (error: null, bytes: number, data: string | Buffer) => void;

const STDOUT = 1;

/**
 * Captures the log lines of this process (JSON lines, written directly to the descriptor of standard output) and its
 * standard error, instead of showing it. Other output goes on.
 */
export function captureLogs(): CapturedLogs {
  const kept: string[] = [];
  const { write } = fs;
  const toError = process.stderr.write;
  fs.write = ((fd: number, data: string | Buffer, ...rest: unknown[]) => {
    const text = String(data);
    if (fd !== STDOUT || !text.startsWith('{"level"')) {
      return (write as (...args: unknown[]) => void)(fd, data, ...rest);
    }
    kept.push(text);
    process.nextTick(rest.at(-1) as Written, null, Buffer.byteLength(text), data);
  }) as typeof fs.write;
  process.stderr.write = ((data: string | Uint8Array) => kept.push(String(data)) > 0) as typeof toError;
  return {
    text: () => kept.join(""),
    stop() {
      fs.write = write;
      process.stderr.write = toError;
    },
  };
}
