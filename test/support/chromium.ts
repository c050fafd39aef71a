import { type Browser, chromium } from "playwright-core";
import { findProgram } from "../../deploy/local/system-package.ts";

/**
 * The path of Chromium: installed with the system's package manager where it is missing.
 *
 * @throws {SetupError} one line that says how to get it
 */
export function findChromium(log: (line: string) => void): Promise<string> {
  return findProgram({ name: "chromium", byHand: "install it (Debian: sudo apt-get install chromium)" }, log);
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
