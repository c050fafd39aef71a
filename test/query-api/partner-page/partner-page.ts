import { expect } from "chai";
import pg from "pg";
import { agreeRateLimit } from "../../../command/operations/installation-operations.ts";
import { type DocumentedService, startDocumentedService } from "../../docs/documented-service.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createTestOperatorContext,
  sendRequest,
  sendTokenRequest,
  type TestApplication,
} from "../../support/partner.ts";
import type { Partner } from "../../support/partner-api.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { openTestPage, type TestPage } from "../../support/test-page.ts";

/** The page /partner in a browser, with the complete partner API and a receiver of webhooks. */
export interface PartnerPage extends TestPage {
  origin: string;
  service: DocumentedService;
  /** A sandbox application. */
  partner: Partner;
  /** The headers that select the clinic of the sandbox. */
  clinicHeaders: Record<string, string>;
  receiver: Receiver;
  /** Fills the sign-in form and submits it. */
  signIn(application: Pick<TestApplication, "applicationId" | "clientSecret" | "environment">): Promise<void>;
  /** Confirms the dialog. The button of the dialog can have the same name as the button that opened it. */
  confirm(name: string): Promise<void>;
  /** Sends a request without the page, and requires that it succeeds. */
  send: Partner["request"];
  /** Creates an endpoint without the page. Returns its id. */
  createEndpoint(path: string, event: string): Promise<string>;
  /** Creates an appointment on the page. Returns its id. */
  createAppointment(): Promise<string>;
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
  const [service, receiver] = await Promise.all([startDocumentedService(), startReceiver()]);
  const { partner } = await service.createSandboxPartner();
  const { applicationId } = partner;
  const { clinicId } = (await partner.request("GET", "/sandbox")).body.sandbox;
  const limit = { applicationId, clinicId, rateLimitPerMinute };
  await agreeRateLimit(service.api.command.log, limit, createTestOperatorContext());
  const testPage = await openTestPage(`${service.origin}/partner`);
  const { page, clickButton } = testPage;
  const clinicHeaders = { "X-SERVICE-Clinic-ID": clinicId };
  const send: Partner["request"] = async (method, path, options) => {
    const response = await partner.request(method, path, { headers: clinicHeaders, ...options });
    expect(response.status, path).to.be.within(200, 299);
    return response;
  };
  return {
    ...testPage,
    origin: service.origin,
    service,
    partner,
    clinicHeaders,
    receiver,
    async signIn({ applicationId, clientSecret, environment }) {
      await page.getByRole("radio", { name: environment === "production" ? "Production" : "Sandbox" }).check();
      await page.getByLabel("Client id").fill(applicationId);
      await page.getByLabel("Client secret").fill(clientSecret);
      await clickButton("Sign in");
    },
    confirm: (name) => page.getByRole("dialog").getByRole("button", { name, exact: true }).click(),
    send,
    async createEndpoint(path, event) {
      const body = { url: `${receiver.url}/${path}`, events: [event] };
      return (await send("POST", "/webhook-endpoints", { body })).body.endpoint.id;
    },
    async createAppointment() {
      await clickButton("New key");
      await clickButton("Create appointment");
      const created = page.getByText(/^Created appointment/);
      await created.waitFor();
      return /[0-9a-f-]{36}/.exec(await created.innerText())?.[0] ?? "";
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
      await testPage.close();
      await receiver.close();
      await service.stop();
    },
  };
}
