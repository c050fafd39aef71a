import { type Browser, chromium } from "playwright-core";
import { findProgram, locate } from "../../deploy/local/setup/system-package.ts";

/** What else Chromium is called, on other systems than Debian. */
const otherNames = ["chromium-browser", "google-chrome", "google-chrome-stable"];

/**
 * The path of Chromium, from PATH; installed with the system's package manager where it is missing.
 *
 * @throws {SetupError} one line that says how to get it
 */
export async function findChromium(log: (line: string) => void): Promise<string> {
  const other = locate("chromium") ? undefined : otherNames.map(locate).find(Boolean);
  return (
    other ??
    findProgram({ name: "chromium", byHand: "install it (Debian: sudo apt-get install chromium)" }, log)
  );
}

/** A browser with nothing remembered, that asks nobody for anything but the pages it is told to open. */
export async function startChromium(): Promise<Browser> {
  const executablePath = await findChromium((line) => process.stderr.write(`${line}\n`));
  return chromium.launch({
    executablePath,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}
