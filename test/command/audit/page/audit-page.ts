import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { customerRegistered } from "../../../support/clinics.ts";
import { createReadModelDatabase, type ReadModelDatabase } from "../../../support/read-models.ts";
import { ATTACK_HTML, openTestPage, type TestPage } from "../../../support/test-page.ts";
import {
  type AuditWorld,
  type ClinicHistory,
  createClinicWithHistory,
  fillReadModels,
  insertDeliveries,
  startAuditWorld,
  type TestAuditor,
} from "../world.ts";

/** The page /audit in a browser, with a clinic that has one appointment. */
export interface AuditPage extends TestPage {
  world: AuditWorld;
  database: ReadModelDatabase;
  history: ClinicHistory;
  auditor: TestAuditor;
  signIn(credential: string): Promise<void>;
  /** Signs the auditor in, and waits for the latest events. */
  openDesk(): Promise<void>;
  /** Starts a search and waits until the page shows its result instead of the previous one. */
  awaitSearch(startSearch: () => Promise<unknown>): Promise<void>;
  /** Searches for the events related to an object, by id. */
  search(kind: string, id: string): Promise<void>;
  readTimeline(): Promise<string[]>;
  /** Returns the URLs of the API requests that the page sends during the action. */
  listRequests(action: () => Promise<unknown>): Promise<URL[]>;
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
  const testPage = await openTestPage(`${world.url}/audit`);
  const { page, urls } = testPage;
  const signIn = async (credential: string) => {
    await page.getByLabel("Auditor credential").fill(credential);
    await page.getByRole("button", { name: "Sign in" }).click();
  };
  const awaitSearch = async (startSearch: () => Promise<unknown>) => {
    await Promise.all([page.waitForRequest(/\/events\?/), startSearch()]);
    await page.locator("#status", { hasText: /\d events?/ }).waitFor();
  };
  return {
    ...testPage,
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
      await testPage.openTab("Id");
      await page.getByLabel("Find events related to").selectOption(kind);
      await page.locator("#subject").fill(id);
      await awaitSearch(() => page.locator("#subject").press("Enter"));
    },
    readTimeline: () => page.locator("#panel-timeline .what").allInnerTexts(),
    async listRequests(action) {
      const { length } = urls;
      await action();
      return urls
        .slice(length)
        .map((url) => new URL(url))
        .filter(({ pathname }) => pathname.startsWith("/audit/v1/"));
    },
    expectProblems(pattern) {
      const leaks = urls.filter((url) => url.includes(auditor.credential) || /yilmaz/i.test(url));
      expect(leaks, "URLs with a name or the credential").to.deep.equal([]);
      testPage.expectProblems(pattern);
    },
    async stop() {
      await testPage.close();
      await world.stop();
      await database.close();
    },
  };
}
