import { createProgressBar } from "./progress-bar.ts";
import type { Terminal } from "./run-command.ts";

export interface Tally {
  lines: number;
  done: number;
  unchanged: number;
  invalid: number;
  refused: number;
}

/** Shows how far an import is. */
export function createProgress(all: number, terminal: Terminal) {
  const { show, line, end } = createProgressBar("import", all, terminal);
  return {
    show: (tally: Tally) =>
      show(tally.lines, `${tally.lines} of ${all} lines, ${tally.invalid + tally.refused} failed`),
    line,
    end,
  };
}
