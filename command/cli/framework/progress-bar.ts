import type { Terminal } from "./run-command.ts";

const WIDTH = 30;

/** Shows how far a long run is: as a bar on a terminal, else as a line after each tenth. */
export function createProgressBar(name: string, all: number, terminal: Terminal) {
  let tenth = 0;
  return {
    /** @param counts said beside the bar */
    show(done: number, counts: string): void {
      const share = done / all;
      if (terminal.redraw) {
        const filled = Math.round(share * WIDTH);
        const bar = "█".repeat(filled) + "░".repeat(WIDTH - filled);
        terminal.redraw(`${bar} ${String(Math.floor(share * 100)).padStart(3)} %  ${counts}`);
      } else if (Math.floor(share * 10) > tenth) {
        tenth = Math.floor(share * 10);
        void terminal.err(`${name}: ${counts}`);
      }
    },
    /** Writes a line above the bar. */
    line(text: string): Promise<void> {
      terminal.redraw?.("");
      return terminal.err(text);
    },
    end(): void {
      terminal.redraw?.("");
    },
  };
}
