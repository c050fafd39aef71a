import { expect } from "chai";
import pg from "pg";
import type { Page } from "playwright-core";
import { agreeRateLimit } from "../../../command/operations/installation-operations.ts";
import { type DocumentedService, startDocumentedService } from "../../docs/documented-service.ts";
import { findViolations } from "../../support/accessibility.ts";
import { startChromium } from "../../support/chromium.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createTestOperatorContext,
  sendRequest,
  sendTokenRequest,
  type TestApplication,
} from "../../support/partner.ts";
import type { Partner } from "../../support/partner-api.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";

/** Widths of a phone and a desktop in CSS pixels. */
const [PHONE_PX, DESKTOP_PX] = [390, 1440];

/** The page /partner in a browser, with the complete partner API and a receiver of webhooks. */
export interface PartnerPage {
  page: Page;
  origin: string;
  service: DocumentedService;
  /** A sandbox application. */
  partner: Partner;
  receiver: Receiver;
  /** URLs of all requests of the page. */
  urls: string[];
  /** Fills the sign-in form and submits it. */
  signIn(application: Pick<TestApplication, "applicationId" | "clientSecret" | "environment">): Promise<void>;
  openTab(name: string): Promise<void>;
  clickButton(name: string): Promise<void>;
  /** Confirms the dialog. The button of the dialog can have the same name as the button that opened it. */
  confirm(name: string): Promise<void>;
  /**
   * Fails if axe finds a violation, or if the page scrolls sideways, on a phone in the dark scheme or on a desktop in
   * the light scheme.
   */
  requireAccessible(viewName: string): Promise<void>;
  /** Fails if there were errors or console messages that do not match. Forgets them. */
  expectProblems(pattern: RegExp): void;
  /** Returns the text of the page with the values of all form fields. */
  readAllText(): Promise<string>;
  /** Waits until the API lists a number of installations. */
  waitForInstallations(application: TestApplication, count: number): Promise<void>;
  /** Waits until a delivery is skipped. Asks Postgres, because requests to the API would use up the rate limit. */
  waitForSkippedDelivery(): Promise<void>;
  stop(): Promise<void>;
}

/** @param rateLimitPerMinute limit of the partner's sandbox; by default, so high that no test reaches it */
export async function startPartnerPage({ rateLimitPerMinute = 100_000 } = {}): Promise<PartnerPage> {
  const [service, receiver, browser] = await Promise.all([startDocumentedService(), startReceiver(), startChromium()]);
  const { partner } = await service.createSandboxPartner();
  const { applicationId } = partner;
  const { clinicId } = (await partner.request("GET", "/sandbox")).body.sandbox;
  const limit = { applicationId, clinicId, rateLimitPerMinute };
  await agreeRateLimit(service.api.command.log, limit, createTestOperatorContext());
  // Without reduced motion, axe would see a color between those of the two schemes.
  const page = await browser.newPage({ viewport: { width: DESKTOP_PX, height: 900 }, reducedMotion: "reduce" });
  const problems: string[] = [];
  const urls: string[] = [];
  page.on("pageerror", (error) => problems.push(`uncaught error: ${error.message}`));
  page.on("console", (message) => problems.push(`console ${message.type()}: ${message.text()}`));
  page.on("request", (request) => urls.push(request.url()));
  await page.goto(`${service.origin}/partner`);
  return {
    page,
    origin: service.origin,
    service,
    partner,
    receiver,
    urls,
    async signIn({ applicationId, clientSecret, environment }) {
      await page.getByRole("radio", { name: environment === "production" ? "Production" : "Sandbox" }).check();
      await page.getByLabel("Client id").fill(applicationId);
      await page.getByLabel("Client secret").fill(clientSecret);
      await page.getByRole("button", { name: "Sign in" }).click();
    },
    openTab: (name) => page.getByRole("tab", { name, exact: true }).click(),
    clickButton: (name) => page.getByRole("button", { name, exact: true }).click(),
    confirm: (name) => page.getByRole("dialog").getByRole("button", { name, exact: true }).click(),
    async requireAccessible(viewName) {
      for (const [width, colorScheme] of [[PHONE_PX, "dark"] as const, [DESKTOP_PX, "light"] as const]) {
        await page.setViewportSize({ width, height: 900 });
        await page.emulateMedia({ colorScheme });
        expect(await page.evaluate("document.documentElement.scrollWidth"), viewName).to.be.at.most(width);
        expect(await findViolations(page), viewName).to.deep.equal([]);
      }
    },
    expectProblems(pattern) {
      expect(problems.splice(0).filter((line) => !pattern.test(line))).to.deep.equal([]);
    },
    readAllText: () =>
      page.evaluate<string>(
        "[document.body.textContent, ...[...document.querySelectorAll('input, textarea')].map(({ value }) => value)].join(' ')",
      ),
    async waitForInstallations(application, count) {
      const { body: token } = await sendTokenRequest(service.api.command.url, application);
      const url = `${service.origin}/${application.environment}/v1/installations`;
      await eventually("the installations", async () => {
        const { body } = await sendRequest("GET", url, { Authorization: `Bearer ${token.access_token}` });
        return body.installations.length === count;
      });
    },
    async waitForSkippedDelivery() {
      const client = new pg.Client({ connectionString: service.api.database.urls.projection });
      await client.connect();
      const statement = "SELECT FROM webhooks.delivery WHERE status = 'skipped'";
      await eventually("a skipped delivery", async () => (await client.query(statement)).rowCount === 1);
      await client.end();
    },
    async stop() {
      await browser.close();
      await receiver.close();
      await service.stop();
    },
  };
}
