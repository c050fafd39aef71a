import type { Terminal } from "./terminal.ts";

const BAR_WIDTH = 30;

/** Creates the progress display of a long run: a bar on a terminal, otherwise one line after each tenth of the total. */
export function createProgressBar(name: string, totalCount: number, terminal: Terminal) {
  let shownTenths = 0;
  return {
    show(finishedCount: number, countsText: string): void {
      const share = finishedCount / totalCount;
      if (terminal.redraw) {
        const filledWidth = Math.round(share * BAR_WIDTH);
        const bar = "█".repeat(filledWidth) + "░".repeat(BAR_WIDTH - filledWidth);
        terminal.redraw(`${bar} ${String(Math.floor(share * 100)).padStart(3)} %  ${countsText}`);
      } else if (Math.floor(share * 10) > shownTenths) {
        shownTenths = Math.floor(share * 10);
        void terminal.writeError(`${name}: ${countsText}`);
      }
    },
  };
}
