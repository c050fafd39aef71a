import fs from "node:fs";
import { releaseLater } from "./resources.ts";

export interface CapturedLogs {
  /** All captured text: log lines and standard error. */
  text(): string;
  /** Stops capturing. Later output is written as usual. */
  stop(): void;
}

type WriteCallback = (error: null, bytes: number, data: string | Buffer) => void;

const STDOUT_FD = 1;

/**
 * Captures this process's log lines and standard error instead of printing them. Log lines are the JSON lines that are
 * written directly to the file descriptor of standard output. Other output is printed as usual.
 */
export function captureLogs(): CapturedLogs {
  const capturedTexts: string[] = [];
  const { write } = fs;
  const writeToStderr = process.stderr.write;
  fs.write = ((fd: number, data: string | Buffer, ...args: unknown[]) => {
    const text = String(data);
    if (fd !== STDOUT_FD || !text.startsWith('{"level"'))
      return (write as (...args: unknown[]) => void)(fd, data, ...args);
    capturedTexts.push(text);
    process.nextTick(args.at(-1) as WriteCallback, null, Buffer.byteLength(text), data);
  }) as typeof fs.write;
  process.stderr.write = ((data: string | Uint8Array) => capturedTexts.push(String(data)) > 0) as typeof writeToStderr;
  return {
    text: () => capturedTexts.join(""),
    stop: releaseLater(() => {
      fs.write = write;
      process.stderr.write = writeToStderr;
    }),
  };
}
