import { type Browser, chromium } from "playwright-core";
import { findOnPath, findProgram } from "../../deploy/local/setup/system-package.ts";
import { releaseLater } from "./resources.ts";

/** Debian's package of Chromium without a user interface. It is faster, and depends on fewer packages. */
const PACKAGE_NAME = "chromium-headless-shell";

/** Possible names of the program, in order of preference. */
const PROGRAM_NAMES = [PACKAGE_NAME, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/**
 * Returns the path of Chromium. If it is not on the PATH, installs it with apt-get.
 *
 * @throws {SetupError} if the installation fails; the message says how to install Chromium
 */
export async function findChromium(log: (line: string) => void): Promise<string> {
  const installAdvice = "Install Chromium (Debian: sudo apt-get install chromium).";
  return PROGRAM_NAMES.map(findOnPath).find(Boolean) ?? findProgram(PACKAGE_NAME, installAdvice, log);
}

/**
 * Starts a browser with an empty profile and without background requests.
 *
 * @param hosts origins that the browser connects to, by host name without a port
 */
export async function startChromium(hosts: Readonly<Record<string, string>> = {}): Promise<Browser> {
  const rules = Object.entries(hosts).map(([host, origin]) => `MAP ${host}:80 ${new URL(origin).host}`);
  const executablePath = await findChromium((line) => process.stderr.write(`${line}\n`));
  const browser = await chromium.launch({
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
      `--host-resolver-rules=${rules.join(",")}`,
    ],
  });
  releaseLater(() => browser.close());
  return browser;
}
