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

/** The page /partner in a browser, with the partner API and a webhook receiver. */
export interface PartnerPage extends TestPage {
  origin: string;
  service: DocumentedService;
  partner: Partner;
  /** The headers that select the clinic of the sandbox. */
  clinicHeaders: Record<string, string>;
  receiver: Receiver;
  signIn(application: Pick<TestApplication, "applicationId" | "clientSecret" | "environment">): Promise<void>;
  /** Clicks a button of the open dialog. The button that opened the dialog can have the same name. */
  confirm(name: string): Promise<void>;
  /** Sends a request directly to the API. Fails unless it succeeds. */
  send: Partner["request"];
  /** Creates an endpoint directly with the API. Returns its id. */
  createEndpoint(path: string, event: string): Promise<string>;
  /** Creates an appointment on the page. Returns its id. */
  createAppointment(): Promise<string>;
  /** Returns the text of the page with the values of all form fields. */
  readAllText(): Promise<string>;
  waitForInstallations(application: TestApplication, count: number): Promise<void>;
  /** Waits until a delivery is skipped. Reads Postgres, because API requests would use up the rate limit. */
  waitForSkippedDelivery(): Promise<void>;
  stop(): Promise<void>;
}

/** @param rateLimitPerMinute limit of the partner at its sandbox; default: a limit that no test reaches */
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
