import type { Terminal } from "./run-command.ts";

export interface Tally {
  lines: number;
  done: number;
  unchanged: number;
  invalid: number;
  refused: number;
}

const WIDTH = 30;

/** Shows how far an import is: as a bar on a terminal, else as a line after each tenth. */
export function createProgress(all: number, terminal: Terminal) {
  let tenth = 0;
  return {
    show(tally: Tally): void {
      const share = tally.lines / all;
      const counts = `${tally.lines} of ${all} lines, ${tally.invalid + tally.refused} failed`;
      if (terminal.redraw) {
        const filled = Math.round(share * WIDTH);
        const bar = "█".repeat(filled) + "░".repeat(WIDTH - filled);
        terminal.redraw(`${bar} ${String(Math.floor(share * 100)).padStart(3)} %  ${counts}`);
      } else if (Math.floor(share * 10) > tenth) {
        tenth = Math.floor(share * 10);
        terminal.err(`import: ${counts}`);
      }
    },
    /** Writes a line above the bar. */
    line(text: string): void {
      terminal.redraw?.("");
      terminal.err(text);
    },
    end(): void {
      terminal.redraw?.("");
    },
  };
}
