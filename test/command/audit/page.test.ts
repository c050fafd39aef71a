import axe from "axe-core";
import { expect } from "chai";
import type { Browser, Page } from "playwright-core";
import { startChromium } from "../../support/chromium.ts";
import {
  type AuditWorld,
  type ClinicHistory,
  CONFIRMATION_NOTE,
  createClinicWithHistory,
  insertDeliveries,
  startAuditWorld,
  type TestAuditor,
} from "./world.ts";

const ATTACK_HTML = `<img src=x onerror="document.title='attacked'"><script>document.title='attacked'</script>`;

describe("the page /audit", function () {
  this.timeout(60_000);
  let world: AuditWorld;
  let history: ClinicHistory;
  let auditor: TestAuditor;
  let browser: Browser;
  let page: Page;
  /** Errors, console messages, requests to other origins and leaked credentials of the page. */
  const problems: string[] = [];

  before(async () => {
    world = await startAuditWorld();
    history = await createClinicWithHistory(world.log, ATTACK_HTML);
    await insertDeliveries(world, history, ATTACK_HTML);
    auditor = await world.registerAuditor([history.clinicId]);
    browser = await startChromium();
    page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    page.on("pageerror", (error) => problems.push(`uncaught error: ${error.message}`));
    page.on("console", (message) => problems.push(`console ${message.type()}: ${message.text()}`));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.origin !== world.url) problems.push(`request to another origin: ${url}`);
      if (request.url().includes(auditor.credential)) problems.push("a URL contains the credential");
    });
    await page.goto(`${world.url}/audit`);
  });

  after(async () => {
    await browser?.close();
    await world?.stop();
  });

  const requireAccessible = async (viewName: string) => {
    await page.evaluate(axe.source);
    const axeResults = await page.evaluate<axe.AxeResults>("axe.run()");
    const violations = axeResults.violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`,
    );
    expect(violations, viewName).to.deep.equal([]);
  };
  const readTimeline = () => page.locator("#panel-timeline .what").allInnerTexts();

  async function signIn(credential: string) {
    await page.getByLabel("Auditor credential").fill(credential);
    await page.getByRole("button", { name: "Sign in" }).click();
  }

  async function search(kind: string, id: string) {
    await page.getByLabel("Find events related to").selectOption(kind);
    await page.locator("#subject").fill(id);
    await page.locator("#subject").press("Enter");
    await page.locator("#status", { hasText: /\d events?/ }).waitFor();
  }

  it("the audit page has a content security policy that forbids other origins and inline code", async () => {
    const { headers, status } = await fetch(`${world.url}/audit`);
    const policy = headers.get("Content-Security-Policy") ?? "";
    expect([status, policy.includes("unsafe"), policy.startsWith("default-src 'none'")]).to.eql([200, false, true]);
    expect((await fetch(`${world.url}/audit`, { method: "POST" })).status).to.equal(405);
    expect((await fetch(`${world.url}/audit/`)).status, "a path with a trailing slash").to.equal(404);
    expect((await fetch(`${world.url}/audit/../main.ts`)).status).to.equal(404);
  });

  it("the audit page refuses an invalid credential and shows the reason", async () => {
    await requireAccessible("signing in");
    await signIn(`${auditor.credential.slice(0, -1)}~`);
    await page.getByText("The credential is invalid").waitFor();
    expect(await page.locator("#desk").isVisible()).to.equal(false);
    // The browser itself logs the 401 to the console.
    expect(problems.splice(0).filter((line) => !line.includes("401"))).to.deep.equal([]);
  });

  it("the audit page signs an auditor in and shows the auditor's name", async () => {
    await signIn(auditor.credential);
    await page.getByText("Ada Audit, 1 clinic").waitFor();
    expect(await page.evaluate("document.activeElement.id")).to.equal("subject");
    await requireAccessible("the desk");
  });

  it("the audit page shows the events of an appointment and the changes of each event", async () => {
    await search("appointment", history.appointmentId);
    expect(await readTimeline()).to.deep.equal([
      "Appointment requested",
      "Appointment confirmed",
      "Appointment cancelled",
    ]);
    await page.getByRole("button", { name: "Appointment confirmed" }).click();
    const changesRegion = page.getByRole("region", { name: "Changes" });
    await changesRegion.getByRole("row", { name: 'status "requested" "confirmed"' }).waitFor();
    expect(await page.locator(".facts").innerText())
      .to.contain("operator test")
      .and.to.contain(CONFIRMATION_NOTE)
      .and.to.contain("2026-05-04 08:10:00.000 UTC");
    await requireAccessible("an event");
  });

  it("the audit page shows the state after the event that the user selects with slider, button or keyboard", async () => {
    const waitForStatus = (value: string) =>
      page
        .getByRole("region", { name: "State" })
        .getByRole("row", { name: `status changed "${value}"` })
        .waitFor();
    await waitForStatus("confirmed");
    await page.getByRole("slider").focus();
    await page.keyboard.press("ArrowRight");
    await waitForStatus("cancelled");
    expect(await page.evaluate("document.activeElement.id")).to.equal("point");
    expect(await page.getByRole("slider").getAttribute("aria-valuetext")).to.equal(
      "after event 3 of 3, Appointment cancelled",
    );
    await page.getByRole("button", { name: "Previous" }).click();
    await waitForStatus("confirmed");
    expect(await page.locator(".event[aria-current]").first().innerText()).to.contain("Appointment confirmed");
  });

  it("the audit page shows stored text as text, never as HTML", async () => {
    await page.getByRole("button", { name: "Appointment requested" }).click();
    await page.getByRole("region", { name: "State" }).getByText("onerror").waitFor();
    await page.getByText("Data as stored").click();
    expect(await page.locator("#detail pre").innerText()).to.contain("<script>");
    expect(await page.title()).to.equal("Audit · Clinic Service");
    expect(await page.locator("#desk img, #desk script").count()).to.equal(0);
  });

  it("the audit page shows an event's causes and deliveries, but no data of clinics outside the auditor's scope", async () => {
    await page.getByRole("tab", { name: "Timeline" }).focus();
    await page.keyboard.press("ArrowRight");
    await page.locator("#panel-causes .root").first().waitFor();
    expect(await page.locator("#panel-causes .root").count()).to.equal(3);
    await requireAccessible("the causes");
    await page.keyboard.press("End");
    await page.getByRole("article").first().waitFor();
    expect(await page.getByRole("article").count()).to.equal(1);
    expect(await page.getByRole("article").innerText())
      .to.contain("failed")
      .and.contain("42 ms")
      .and.contain("onerror");
    await requireAccessible("the deliveries");
  });

  it("the audit page supports links and the Back button, and shows no events of another clinic", async () => {
    const foreignHistory = await createClinicWithHistory(world.log);
    await page.goto(`${world.url}/audit#stream=${history.stream}`);
    await page.getByText("3 events").waitFor();
    await page.getByRole("button", { name: "Appointment requested" }).click();
    await page.getByRole("link", { name: history.requestContext.correlationId }).click();
    await page.getByText("1 event", { exact: true }).waitFor();
    await page.goBack();
    await page.getByText("3 events").waitFor();
    await search("customer", foreignHistory.customerId);
    await page.getByText("No visible events match this search.").waitFor();
  });

  it("the audit page fits a narrow screen", async () => {
    await page.setViewportSize({ width: 320, height: 640 });
    await search("appointment", history.appointmentId);
    await page.getByRole("button", { name: "Appointment confirmed" }).click();
    await page.getByRole("region", { name: "State" }).waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).to.be.at.most(320);
    await requireAccessible("a narrow screen");
  });

  it("the audit page signs a revoked auditor out and removes all data", async () => {
    await auditor.revoke();
    await page.locator("#subject").press("Enter");
    await page.getByText("The credential is invalid").waitFor();
    expect(await page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]")).to.eql([0, 0, ""]);
    expect(await readTimeline()).to.deep.equal([]);
    expect(problems.filter((line) => !line.includes("401"))).to.deep.equal([]);
  });
});
