import { type Browser, chromium } from "playwright-core";
import { findOnPath, findProgram } from "../../deploy/local/setup/system-package.ts";

/** Names of the Chromium program on systems other than Debian. */
const FALLBACK_BROWSERS = ["chromium-browser", "google-chrome", "google-chrome-stable"];

/**
 * Returns the path of Chromium on PATH. If Chromium is missing, installs it with apt-get.
 *
 * @throws {SetupError} one line that says how to install Chromium
 */
export async function findChromium(log: (line: string) => void): Promise<string> {
  const fallbackPath = findOnPath("chromium") ? undefined : FALLBACK_BROWSERS.map(findOnPath).find(Boolean);
  return (
    fallbackPath ??
    findProgram({ name: "chromium", installAdvice: "install it (Debian: sudo apt-get install chromium)" }, log)
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
