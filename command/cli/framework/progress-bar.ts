import type { Terminal } from "./run-command.ts";

const WIDTH = 30;

/** Shows the progress of a long run: a bar on a terminal, else one line after each tenth. */
export function createProgressBar(name: string, all: number, terminal: Terminal) {
  let tenth = 0;
  return {
    /** @param counts text next to the bar */
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
