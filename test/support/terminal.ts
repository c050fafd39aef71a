import { Readable } from "node:stream";
import type { Terminal } from "../../shared/command-line/terminal.ts";

/** Creates a terminal that collects a command's output. By default, neither input nor output is interactive. */
export function createTestTerminal(overrides: Partial<Terminal> = {}) {
  const outputLines: string[] = [];
  const errorLines: string[] = [];
  const terminal: Terminal = {
    env: {},
    stdin: Readable.from([]),
    writeOutput: async (line) => void outputLines.push(line),
    writeError: async (line) => void errorLines.push(line),
    redraw: undefined,
    columns: undefined,
    readKey: undefined,
    catchInterruption: () => new AbortController().signal,
    ...overrides,
  };
  return { terminal, outputLines, errorLines };
}
