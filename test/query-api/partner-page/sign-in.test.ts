import { expect } from "chai";
import { revokeCredential } from "../../../command/operations/application-operations.ts";
import { fromLocalTime } from "../../../shared/domain/time/local-time.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createApplication,
  createClinic,
  createTestOperatorContext,
  installApplication,
  sendRequest,
  sendTokenRequest,
} from "../../support/partner.ts";
import { type PartnerPage, startPartnerPage } from "./partner-page.ts";

describe("the sign-in of the page /partner", function () {
  this.timeout(180_000);
  let world: PartnerPage;
  let page: PartnerPage["page"];

  before(async () => {
    world = await startPartnerPage({ rateLimitPerMinute: 120 });
    page = world.page;
  });

  after(() => world?.stop());

  it("the partner page has a content security policy that forbids other origins and inline code", async () => {
    const { headers, status } = await fetch(`${world.origin}/partner`);
    const policy = headers.get("Content-Security-Policy") ?? "";
    expect([status, policy.includes("unsafe"), policy.startsWith("default-src 'none'")]).to.eql([200, false, true]);
    const response = await fetch(`${world.origin}/partner/`, { redirect: "manual" });
    expect([response.status, response.headers.get("Location")], "a trailing slash").to.deep.equal([308, "/partner"]);
  });

  it("the partner page converts local times as the domain does, with all clock changes", async () => {
    const localTimes = [
      ["Europe/Zurich", "2026-10-25", "02:30"],
      ["Europe/Zurich", "2026-10-25", "03:00"],
      ["Atlantic/Azores", "2026-10-25", "00:00"],
      ["Asia/Amman", "2021-10-29", "00:00"],
      ["Asia/Beirut", "2026-03-29", "00:00"],
      ["Australia/Lord_Howe", "2026-04-05", "01:45"],
      ["Pacific/Auckland", "2026-09-27", "03:00"],
    ] as const;
    for (const [timeZone, date, time] of localTimes) {
      const script = `import("/partner/local-time.js").then(({ toInstant }) => toInstant("${date}T${time}", "${timeZone}"))`;
      expect(await page.evaluate(script), `${date} ${time} in ${timeZone}`).to.equal(
        toInstant(fromLocalTime(timeZone, date, time)),
      );
    }
  });

  it("the partner page refuses a wrong secret, and says what to check", async () => {
    await world.requireAccessible("signing in");
    await world.signIn({ ...world.partner, clientSecret: "wrong" });
    await page.getByText("The client id or the secret is wrong or revoked").waitFor();
    expect(await page.locator("#desk").isVisible()).to.equal(false);
    await world.signIn({ ...world.partner, environment: "production" });
    await page.getByText("or belongs to the other environment").waitFor();
    world.expectProblems(/401/);
  });

  it("the partner page signs an application in, and shows its sandbox and the usage of the rate limit", async () => {
    await world.signIn(world.partner);
    await page.getByRole("heading", { name: "Sandbox Clinic" }).waitFor();
    await page.getByText("No endpoints at Sandbox Clinic yet.").waitFor();
    expect(await page.locator("#environment").innerText()).to.equal("Sandbox");
    expect(await page.locator("#usage").innerText()).to.match(/^11\d of 120 requests\/min left$/);
    expect(await page.getByLabel("Client secret").inputValue()).to.equal("");
    await world.openTab("Clinic");
    const clinicPanel = page.getByRole("tabpanel", { name: "Clinic" });
    expect(await clinicPanel.innerText())
      .to.contain("webhooks:write")
      .and.contain("120 requests per minute")
      .and.contain("Biscuit, dog");
    await world.requireAccessible("the clinic");
  });

  it("after a reload, the session continues without the secret, and signing out removes it from the tab", async () => {
    const readStorage = () => page.evaluate<string>("JSON.stringify({ ...sessionStorage, ...localStorage })");
    expect(await readStorage())
      .to.contain("eyJ")
      .and.not.contain(world.partner.clientSecret);
    await page.reload();
    await page.getByRole("tabpanel", { name: "Clinic" }).getByText("Biscuit, dog").waitFor();
    await world.signOut();
    expect(await readStorage()).to.equal("{}");
    await page.reload();
    expect(await page.locator("#desk").isVisible()).to.equal(false);
    await world.signIn(world.partner);
    await page.getByText("No endpoints at Sandbox Clinic yet.").waitFor();
    await page.evaluate(`sessionStorage.setItem("partner session", JSON.stringify({
      ...JSON.parse(sessionStorage.getItem("partner session")), token: "expired" }))`);
    await page.reload();
    await page.getByText("The credential is invalid, expired or revoked. Sign in again.").waitFor();
    world.expectProblems(/401/);
    await world.signIn(world.partner);
    await page.getByText("No endpoints at Sandbox Clinic yet.").waitFor();
    await world.openTab("Clinic");
    await page.evaluate(`sessionStorage.setItem("partner session", JSON.stringify({
      ...JSON.parse(sessionStorage.getItem("partner session")), expiresAt: Date.now() }))`);
    await page.reload();
    await page.locator("#sign-in-alert", { hasText: "The session has ended. Sign in again." }).waitFor();
    expect(await readStorage()).to.equal("{}");
    await world.signIn(world.partner);
    await page.getByText("Biscuit, dog").waitFor();
  });

  it("the partner page says what to do if a proxy answers instead of the service", async () => {
    for (const status of [502, 503]) {
      await page.route("**/sandbox/reset", (route) => route.fulfill({ status, body: "<html>" }), { times: 1 });
      await world.clickButton("Reset sandbox");
      await world.confirm("Reset sandbox");
      await page
        .locator("#sandbox-alert", { hasText: "The service is unavailable at the moment. Try again." })
        .waitFor();
    }
    world.expectProblems(/50[23]/);
  });

  it("the partner page lists its requests, and says that the service is unreachable", async () => {
    await world.clickButton("Reset sandbox");
    await world.confirm("Reset sandbox");
    await page.getByText("The sandbox has the data of today again.").waitFor();
    await world.openTab("Requests");
    const requests = page.locator(".requests > li");
    const reset = requests.filter({ hasText: /POST \/sandbox\/v1\/sandbox\/reset/ }).first();
    await reset.locator("summary").click();
    const curl = await reset.getByRole("region", { name: "curl" }).innerText();
    expect(curl).to.match(/^curl -X POST 'http[^']*\/sandbox\/v1\/sandbox\/reset' /);
    expect(curl).to.contain(`-H "Authorization: Bearer $TOKEN"`);
    expect(await reset.getByRole("region", { name: "Response body" }).innerText()).to.match(/"ok": true/);
    expect(await page.locator("#requests").evaluate((list) => list.textContent)).to.not.match(/eyJ|whsec_/);
    await world.requireAccessible("the requests");
    await page.context().setOffline(true);
    await world.openTab("Appointments");
    await page.getByText("The service is unreachable. Check your connection and try again.").waitFor();
    await page.context().setOffline(false);
    await world.clickButton("Show");
    await page.locator("#appointments-status", { hasText: /^\d appointments$/ }).waitFor();
    world.expectProblems(/ERR_INTERNET_DISCONNECTED/);
  });

  it("a read sends the latest position of the page's writes, whichever response arrives last", async () => {
    await page.route("**/sandbox/v1/order/*", (route) => {
      const position = `90000000000000000${route.request().url().slice(-2)}`;
      return route.fulfill({ json: {}, headers: { "X-SERVICE-Log-Position": position } });
    });
    const [read] = await Promise.all([
      page.waitForRequest("**/order/00"),
      page.evaluate(`import("/partner/session.js").then(async ({ request }) => {
        for (const [method, id] of [["POST", 12], ["POST", 11], ["GET", "00"]]) await request(method, "/order/" + id);
      })`),
    ]);
    expect(read.headers()).to.include({ "x-service-log-position": "9000000000000000012" });
    await page.unroute("**/sandbox/v1/order/*");
  });

  it("while the clinic loads, the partner page says so, and shows nothing that needs the clinic", async () => {
    await world.signOut();
    let isChecked = false;
    await page.route("**/clinic/context", async (route) => {
      await eventually("the check", () => isChecked);
      await route.continue();
    });
    await world.signIn(world.partner);
    await page.locator("#clinic-hint", { hasText: "Loading …" }).waitFor();
    expect(await page.getByRole("tab").count()).to.equal(0);
    await page.evaluate("dispatchEvent(new PopStateEvent('popstate'))");
    isChecked = true;
    await page.getByRole("tab", { name: "Webhooks", selected: true }).waitFor();
    await page.unroute("**/clinic/context");
    world.expectProblems(/nothing/);
  });

  it("if the clinic or its endpoints cannot be loaded, the partner page tries again without another sign-in", async () => {
    await world.signOut();
    for (const path of ["**/clinic/context", "**/webhook-endpoints"])
      await page.route(path, (route) => route.abort(), { times: 1 });
    await world.signIn(world.partner);
    const alert = page.locator("#clinic-alert");
    await alert.getByText("The service is unreachable.").waitFor();
    await world.requireAccessible("a clinic that cannot be loaded");
    await world.clickButton("Try again");
    await page.locator("#sections").and(page.locator(":not([hidden])")).waitFor();
    await alert.getByText("The service is unreachable.").waitFor();
    await page.getByRole("button", { name: "Try again" }).press("Enter");
    expect(await world.readFocusedId()).to.equal("main");
    await page.getByText("No endpoints at Sandbox Clinic yet.").waitFor();
    world.expectProblems(/ERR_FAILED/);
  });

  it("in production, the partner page shows the clinics that have approved the application", async () => {
    const { log } = world.service.api.command;
    const application = await createApplication(log);
    await world.signOut();
    await world.signIn(application);
    await page.getByText("No clinic has approved this application yet.").waitFor();
    await world.signOut();
    const clinic = await createClinic(log);
    const otherClinic = await createClinic(log);
    await installApplication(log, application, clinic, { rateLimitPerMinute: 50 });
    await installApplication(log, application, otherClinic, { branchIds: [otherClinic.branchId] });
    await world.waitForInstallations(application, 2);
    await world.signIn(application);
    await page.getByRole("combobox", { name: "Clinic" }).selectOption(otherClinic.clinicId);
    await page.locator("#clinic-hint", { hasText: otherClinic.clinicId }).waitFor();
    expect(await page.locator("#environment").innerText()).to.equal("Production");
    await world.openTab("Clinic");
    expect(await page.getByRole("tabpanel", { name: "Clinic" }).innerText())
      .to.contain("only these branches")
      .and.not.contain("Harbour");
    expect(await page.getByRole("button", { name: "Reset sandbox" }).count()).to.equal(0);
    await world.openTab("Appointments");
    await page.getByLabel("Animal id").fill(otherClinic.animalId);
    await page.getByLabel("Start (Europe/Istanbul)").fill("2099-05-04T10:30");
    await world.clickButton("Create appointment");
    await page.getByText("on 2099-05-04 10:30 UTC+3").waitFor();
    const { body: token } = await sendTokenRequest(world.service.api.command.url, application);
    await revokeCredential(log, application, createTestOperatorContext());
    await eventually("the revocation", async () => {
      const authorization = { Authorization: `Bearer ${token.access_token}` };
      const response = await sendRequest("GET", `${world.origin}/production/v1/installations`, authorization);
      return response.status === 401;
    });
    await world.clickButton("Show");
    await page.locator("#sign-in-alert", { hasText: "wrong or revoked" }).waitFor();
    expect(await world.readFocusedId()).to.equal("client-id");
    expect(await world.readAllText()).to.not.contain(otherClinic.animalId);
    world.expectProblems(/401/);
  });
});
