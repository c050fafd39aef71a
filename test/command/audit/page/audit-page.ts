import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Page } from "playwright-core";
import { findViolations } from "../../../support/accessibility.ts";
import { startChromium } from "../../../support/chromium.ts";
import { customerRegistered } from "../../../support/clinics.ts";
import { createReadModelDatabase, type ReadModelDatabase } from "../../../support/read-models.ts";
import {
  type AuditWorld,
  type ClinicHistory,
  createClinicWithHistory,
  fillReadModels,
  insertDeliveries,
  startAuditWorld,
  type TestAuditor,
} from "../world.ts";

/** Windows in which each view is checked, the default first. */
const WINDOWS = [
  { width: 1440, colorScheme: "light" },
  { width: 390, colorScheme: "dark" },
] as const;

/** Stored text that changes the title if a page interprets it as HTML. */
export const ATTACK_HTML = `<img src=x onerror="document.title='attacked'"><script>document.title='attacked'</script>`;

/** The page /audit in a browser, with a clinic that has a history of one appointment. */
export interface AuditPage {
  page: Page;
  world: AuditWorld;
  database: ReadModelDatabase;
  history: ClinicHistory;
  auditor: TestAuditor;
  signIn(credential: string): Promise<void>;
  /** Signs the auditor in, and waits for the latest events. */
  openDesk(): Promise<void>;
  /** Starts a search and waits until its events are shown. Before its request, the former events are still shown. */
  awaitSearch(startSearch: () => Promise<unknown>): Promise<void>;
  /** Searches for the events related to an object. */
  search(kind: string, id: string): Promise<void>;
  readTimeline(): Promise<string[]>;
  /** Fails if axe finds a violation, or the page is wider than the window, on a desktop or on a dark phone. */
  requireAccessible(viewName: string): Promise<void>;
  /**
   * Fails if there were errors, console messages, requests to other origins or leaked credentials that do not match.
   * Forgets them.
   */
  expectProblems(pattern: RegExp): void;
  stop(): Promise<void>;
}

export async function startAuditPage(): Promise<AuditPage> {
  const database = await createReadModelDatabase();
  const world = await startAuditWorld({}, undefined, database);
  const history = await createClinicWithHistory(world.log, ATTACK_HTML);
  await fillReadModels(database, history);
  await database.given(customerRegistered(history.clinicId, randomUUID(), { fullName: `Eve ${ATTACK_HTML}` }));
  await insertDeliveries(world, history, ATTACK_HTML);
  const auditor = await world.registerAuditor([history.clinicId]);
  const browser = await startChromium();
  const page = await browser.newPage({ viewport: { width: WINDOWS[0].width, height: 900 }, reducedMotion: "reduce" });
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(`uncaught error: ${error.message}`));
  page.on("console", (message) => problems.push(`console ${message.type()}: ${message.text()}`));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.origin !== world.url) problems.push(`request to another origin: ${url}`);
    if (request.url().includes(auditor.credential)) problems.push("a URL contains the credential");
    if (/yilmaz/i.test(request.url())) problems.push("a URL contains a name");
  });
  await page.goto(`${world.url}/audit`);
  const signIn = async (credential: string) => {
    await page.getByLabel("Auditor credential").fill(credential);
    await page.getByRole("button", { name: "Sign in" }).click();
  };
  const awaitSearch = async (startSearch: () => Promise<unknown>) => {
    await Promise.all([page.waitForRequest(/\/events\?/), startSearch()]);
    await page.locator("#status", { hasText: /\d events?/ }).waitFor();
  };
  return {
    page,
    world,
    database,
    history,
    auditor,
    signIn,
    async openDesk() {
      await signIn(auditor.credential);
      await page.getByText("the newest first").waitFor();
    },
    awaitSearch,
    async search(kind, id) {
      await page.getByRole("tab", { name: "Id", exact: true }).click();
      await page.getByLabel("Find events related to").selectOption(kind);
      await page.locator("#subject").fill(id);
      await awaitSearch(() => page.locator("#subject").press("Enter"));
    },
    readTimeline: () => page.locator("#panel-timeline .what").allInnerTexts(),
    async requireAccessible(viewName) {
      for (const { width, colorScheme } of [WINDOWS[1], WINDOWS[0]]) {
        await page.setViewportSize({ width, height: 900 });
        await page.emulateMedia({ colorScheme });
        expect(await findViolations(page), `${viewName} at ${width} pixels`).to.deep.equal([]);
        expect(await page.evaluate("document.documentElement.scrollWidth"), viewName).to.be.at.most(width);
      }
    },
    expectProblems(pattern) {
      expect(problems.splice(0).filter((line) => !pattern.test(line))).to.deep.equal([]);
    },
    async stop() {
      await browser.close();
      await world.stop();
      await database.close();
    },
  };
}
