import { expect } from "chai";
import type { Page } from "playwright-core";
import { findViolations } from "./accessibility.ts";
import { startChromium } from "./chromium.ts";

/** Window sizes and color schemes for the checks of each view. The last one is the default. */
const WINDOWS = [
  { width: 390, colorScheme: "dark" },
  { width: 1440, colorScheme: "light" },
] as const;

/** HTML that changes the title if a page does not escape it. */
export const ATTACK_HTML = `<img src=x onerror="document.title='attacked'"><script>document.title='attacked'</script>`;

/** A page of the product in a browser. */
export interface TestPage {
  page: Page;
  /** URLs of all requests of the page. */
  urls: string[];
  openTab(name: string): Promise<void>;
  clickButton(name: string): Promise<void>;
  /** Signs out and waits until the page is reloaded. */
  signOut(): Promise<void>;
  readFocusedId(): Promise<string>;
  setWidth(width: number): Promise<void>;
  /**
   * Checks the view in a dark phone window and in a desktop window. Fails if axe finds a violation, or if the page is
   * wider than the window.
   */
  requireAccessible(viewName: string): Promise<void>;
  /**
   * Fails if there were problems that do not match: errors, console messages or requests to other origins. Then forgets
   * all problems.
   */
  expectProblems(pattern: RegExp): void;
  close(): Promise<void>;
}

export async function openTestPage(url: string): Promise<TestPage> {
  const browser = await startChromium();
  // Without reduced motion, axe would see a color between those of the two schemes.
  const page = await browser.newPage({ reducedMotion: "reduce" });
  const setWidth = (width: number) => page.setViewportSize({ width, height: 900 });
  await setWidth(1440);
  const problems: string[] = [];
  const urls: string[] = [];
  page.on("pageerror", (error) => problems.push(`uncaught error: ${error.message}`));
  page.on("console", (message) => problems.push(`console ${message.type()}: ${message.text()}`));
  page.on("request", (request) => {
    urls.push(request.url());
    if (new URL(request.url()).origin !== new URL(url).origin) problems.push(`another origin: ${request.url()}`);
  });
  await page.goto(url);
  const clickButton = (name: string) => page.getByRole("button", { name, exact: true }).click();
  return {
    page,
    urls,
    openTab: (name) => page.getByRole("tab", { name, exact: true }).click(),
    clickButton,
    async signOut() {
      await clickButton("Sign out");
      // The scripts of the page move the focus. Before, the form does nothing.
      await page.locator("#sign-in input:focus").waitFor();
    },
    readFocusedId: () => page.evaluate<string>("document.activeElement.id"),
    setWidth,
    async requireAccessible(viewName) {
      for (const { width, colorScheme } of WINDOWS) {
        await setWidth(width);
        await page.emulateMedia({ colorScheme });
        expect(await findViolations(page), `${viewName} at ${width} pixels`).to.deep.equal([]);
        expect(await page.evaluate("document.documentElement.scrollWidth"), viewName).to.be.at.most(width);
      }
    },
    expectProblems(pattern) {
      expect(problems.splice(0).filter((line) => !pattern.test(line))).to.deep.equal([]);
    },
    close: () => browser.close(),
  };
}
