import type { Terminal } from "./run-command.ts";

/** Width of the bar in characters. */
const BAR_WIDTH = 30;

/** Creates the progress display of a long run: a bar on a terminal, otherwise one line after each tenth of the total. */
export function createProgressBar(name: string, total: number, terminal: Terminal) {
  let shownTenths = 0;
  return {
    /**
     * @param done number of finished items
     * @param counts text next to the bar
     */
    show(done: number, counts: string): void {
      const share = done / total;
      if (terminal.redraw) {
        const filled = Math.round(share * BAR_WIDTH);
        const bar = "█".repeat(filled) + "░".repeat(BAR_WIDTH - filled);
        terminal.redraw(`${bar} ${String(Math.floor(share * 100)).padStart(3)} %  ${counts}`);
      } else if (Math.floor(share * 10) > shownTenths) {
        shownTenths = Math.floor(share * 10);
        void terminal.err(`${name}: ${counts}`);
      }
    },
    /** Writes a line above the bar. */
    writeLine(text: string): Promise<void> {
      terminal.redraw?.("");
      return terminal.err(text);
    },
    /** Removes the bar. */
    end(): void {
      terminal.redraw?.("");
    },
  };
}
