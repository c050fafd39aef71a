import { expect } from "chai";
import type { Page } from "playwright-core";
import { findViolations } from "./accessibility.ts";
import { startChromium } from "./chromium.ts";

/** Windows in which each view is checked, the default last. */
const WINDOWS = [
  { width: 390, colorScheme: "dark" },
  { width: 1440, colorScheme: "light" },
] as const;

/** Stored text that changes the title if a page interprets it as HTML. */
export const ATTACK_HTML = `<img src=x onerror="document.title='attacked'"><script>document.title='attacked'</script>`;

/** A page of the product in a browser. */
export interface TestPage {
  page: Page;
  /** URLs of all requests of the page. */
  urls: string[];
  openTab(name: string): Promise<void>;
  clickButton(name: string): Promise<void>;
  /** Ends the session, and waits until the page was loaded again. */
  signOut(): Promise<void>;
  readFocusedId(): Promise<string>;
  setWidth(width: number): Promise<void>;
  /** Fails if axe finds a violation, or the page is wider than the window, on a dark phone or on a desktop. */
  requireAccessible(viewName: string): Promise<void>;
  /** Fails if there were errors, console messages or requests to other origins that do not match. Forgets them. */
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
