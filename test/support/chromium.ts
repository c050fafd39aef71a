import { type Browser, chromium } from "playwright-core";
import { findProgram, locate } from "../../deploy/local/setup/system-package.ts";

/** Names of the Chromium program on different systems. */
const otherNames = ["chromium-browser", "google-chrome", "google-chrome-stable"];

/**
 * Finds Chromium on the PATH. If it is missing, installs it with the system's package manager.
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

/** Starts a browser with an empty profile and without background requests. */
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
