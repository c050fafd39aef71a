import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { expect } from "chai";
import type { Browser, Page } from "playwright-core";
import { requestAppointment, rescheduleAppointment } from "../../../command/operations/appointment-operations.ts";
import { registerCustomer } from "../../../command/operations/people-operations.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { findViolations } from "../../support/accessibility.ts";
import { startChromium } from "../../support/chromium.ts";
import { appointmentRequested, customerRegistered } from "../../support/clinics.ts";
import { createTestDataKeys } from "../../support/data-keys.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { createReadModelDatabase, type ReadModelDatabase } from "../../support/read-models.ts";
import {
  type AuditWorld,
  type ClinicHistory,
  CONFIRMATION_NOTE,
  createClinicWithHistory,
  fillReadModels,
  insertDeliveries,
  startAuditWorld,
  type TestAuditor,
} from "./world.ts";

const ATTACK_HTML = `<img src=x onerror="document.title='attacked'"><script>document.title='attacked'</script>`;

describe("the page /audit", function () {
  this.timeout(60_000);
  let world: AuditWorld;
  let database: ReadModelDatabase;
  let history: ClinicHistory;
  let auditor: TestAuditor;
  let browser: Browser;
  let page: Page;
  /** Errors, console messages, requests to other origins and leaked credentials of the page. */
  const problems: string[] = [];

  before(async () => {
    database = await createReadModelDatabase();
    world = await startAuditWorld({}, undefined, database);
    history = await createClinicWithHistory(world.log, ATTACK_HTML);
    await fillReadModels(database, history);
    await database.given(customerRegistered(history.clinicId, randomUUID(), { fullName: `Eve ${ATTACK_HTML}` }));
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
      if (/yilmaz/i.test(request.url())) problems.push("a URL contains a name");
    });
    await page.goto(`${world.url}/audit`);
  });

  after(async () => {
    await browser?.close();
    await world?.stop();
    await database?.close();
  });

  const requireAccessible = async (viewName: string) => {
    expect(await findViolations(page), viewName).to.deep.equal([]);
  };
  const readTimeline = () => page.locator("#panel-timeline .what").allInnerTexts();

  async function signIn(credential: string) {
    await page.getByLabel("Auditor credential").fill(credential);
    await page.getByRole("button", { name: "Sign in" }).click();
  }

  /** Starts a search and waits until its events are shown. Before its request, the former events are still shown. */
  async function awaitSearch(startSearch: () => Promise<unknown>) {
    await Promise.all([page.waitForRequest(/\/events\?/), startSearch()]);
    await page.locator("#status", { hasText: /\d events?/ }).waitFor();
  }

  async function search(kind: string, id: string) {
    await page.getByRole("tab", { name: "Id", exact: true }).click();
    await page.getByLabel("Find events related to").selectOption(kind);
    await page.locator("#subject").fill(id);
    await awaitSearch(() => page.locator("#subject").press("Enter"));
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

  it("the audit page signs an auditor in and shows the clinic's latest events with names and time zones", async () => {
    await signIn(auditor.credential);
    await page.getByText("Ada Audit, 1 clinic").waitFor();
    await page.getByRole("heading", { name: "Latest events of Happy Paws" }).waitFor();
    expect(await page.evaluate("document.activeElement.id")).to.equal("name");
    expect(await page.locator("#clinic-hint").innerText()).to.contain("Europe/Istanbul");
    const latestEvent = page.locator("#panel-timeline .event").first();
    await latestEvent.getByText("2026-05-06 13:00 UTC+3").waitFor();
    await latestEvent.getByText("Pamuk").waitFor();
    expect(await latestEvent.innerText())
      .to.contain("Appointment cancelled")
      .and.contain("2026-05-04 11:20:00 UTC+3")
      .and.contain("2026-05-04 08:20:00.000 UTC");
    await requireAccessible("the desk");
  });

  it("the audit page finds a customer by a part of the name, with the keyboard only", async () => {
    await page.keyboard.type("YILM");
    await page.keyboard.press("Enter");
    await page.getByText("1 name matches").waitFor();
    await requireAccessible("the matches");
    const link = page.getByRole("link", { name: "Ada Yilmaz" });
    while (!(await link.evaluate((element) => element.matches(":focus")))) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Events of customer Ada Yilmaz" }).waitFor();
    await page.getByText("5 events", { exact: true }).waitFor();
    expect((await readTimeline())[0]).to.equal("Customer registered");
    await page.getByLabel("Part of a name").fill("nobody");
    await page.getByLabel("Part of a name").press("Enter");
    await page.getByText("No name contains this text.").waitFor();
    await page.getByLabel("Part of a name").fill("onerror");
    await page.getByLabel("Part of a name").press("Enter");
    await page.getByRole("link", { name: /^Eve <img/ }).waitFor();
  });

  it("the audit page finds appointments by day and time in the clinic's time zone", async () => {
    await page.getByRole("tab", { name: "Appointment", exact: true }).click();
    await page.getByLabel("Day (Europe/Istanbul)", { exact: true }).fill("2026-05-06");
    await page.getByLabel("Time (Europe/Istanbul), optional").fill("13:15");
    await page.keyboard.press("Enter");
    await page.getByText("1 appointment on 2026-05-06 at 13:15").waitFor();
    await requireAccessible("the appointments");
    await page.getByRole("link", { name: "2026-05-06 13:00 UTC+3" }).click();
    await page.getByText("3 events", { exact: true }).waitFor();
    await page.getByLabel("Time (Europe/Istanbul), optional").fill("14:00");
    await page.keyboard.press("Enter");
    await page.getByText("No appointment takes place at this time.").waitFor();
  });

  it("the audit page finds events by actor and day, and suggests actors", async () => {
    await page.getByRole("tab", { name: "Actor and day" }).click();
    expect(await page.locator("#known-actors option").first().getAttribute("value")).to.equal("operator:test");
    await page.getByLabel("Done by, optional").fill("operator:test");
    await page.locator("#actor-day").fill("2026-05-04");
    await page.keyboard.press("Enter");
    await page
      .getByRole("heading", { name: /^Events of clinic Happy Paws .*on 2026-05-04, done by operator:test$/ })
      .waitFor();
    await page.getByText("3 events", { exact: true }).waitFor();
    await requireAccessible("the search by actor");
  });

  it("the audit page shows the accesses to the subject on screen, in a period or on a day", async () => {
    const showAccesses = async (kind: string, id: string) => {
      await search(kind, id);
      await page.getByRole("tab", { name: "Accesses" }).click();
      await page.locator("#accesses-body .summary").waitFor();
      return page.getByRole("list", { name: "Accesses" }).innerText();
    };
    await page.getByRole("link", { name: "Latest events" }).click();
    await page.getByText("the newest first").waitFor();
    const { animalId, customerId } = history;
    const reader = await world.registerAuditor([history.clinicId]);
    await reader.request(`/audit/v1/state?stream=clinic-${history.clinicId}`);
    await reader.request(`/audit/v1/state?stream=${history.stream}`);
    expect(await showAccesses("animal", animalId))
      .to.match(/state by/)
      .and.not.match(/stream clinic/);
    expect(await page.locator("#accesses-hint").innerText()).to.match(/data of animal Pamuk/);
    expect(await showAccesses("clinic", history.clinicId)).to.match(/stream clinic/);
    await showAccesses("customer", customerId);
    expect(await page.locator("#accesses-body .summary").innerText()).to.match(/^2 readers: .*Ada Audit/);
    await page.getByLabel("Period").selectOption("day");
    await page.getByText("Select a day.").waitFor();
    await page.locator("#access-day").fill("2026-05-04");
    await page.getByText("No recorded access in this period.").waitFor();
    await requireAccessible("the accesses on a day");
    await page.getByLabel("Period").selectOption("30");
    await search("clinic", history.clinicId);
  });

  it("the audit page shows who read the clinic's data, with names", async () => {
    await page.getByRole("tab", { name: "Accesses" }).click();
    const accesses = page.getByRole("list", { name: "Accesses" });
    await accesses.getByText("search by auditor Ada Audit").first().waitFor();
    expect(await accesses.innerText())
      .to.contain("name (withheld)")
      .and.to.match(/UTC\+3/);
    await requireAccessible("the accesses");
  });

  it("the audit page shows that the service is unreachable, and tries again", async () => {
    await page.context().setOffline(true);
    await page.getByRole("link", { name: "Latest events" }).click();
    await page.getByText("The service is unreachable.").waitFor();
    await requireAccessible("an error");
    await page.context().setOffline(false);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("the newest first").waitFor();
    expect(await page.locator("#failure").isVisible()).to.equal(false);
    expect(problems.splice(0).filter((line) => !line.includes("ERR_INTERNET_DISCONNECTED"))).to.deep.equal([]);
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
    await changesRegion.getByRole("row", { name: "status requested confirmed" }).waitFor();
    expect(await page.locator(".facts").innerText())
      .to.contain("operator test")
      .and.to.contain(CONFIRMATION_NOTE)
      .and.to.contain("2026-05-04 11:10:00 UTC+3")
      .and.to.contain("2026-05-04 08:10:00.000 UTC")
      .and.to.contain("Happy Paws");
    await page.getByRole("region", { name: "State" }).getByText("Ada Yilmaz").waitFor();
    await requireAccessible("an event");
  });

  it("the audit page shows a move on the day before the move, and in a sentence with the reason", async () => {
    const { clinicId, branchId, animalId, customerId } = history;
    const appointmentId = randomUUID();
    const [before, after] = ["2026-11-27T05:30:00.000Z", "2026-11-27T12:00:00.000Z"];
    const context = createTestOperatorContext(Date.parse("2026-05-04T08:00:00Z"));
    const details = { animalId, durationMinutes: 30, reason: null, notes: null };
    const request = { appointmentId, clinicId, branchId, scheduledAt: before, ...details };
    await requestAppointment(world.log, request, context);
    const move = { scheduledAt: after, reason: "Power cut <b>" };
    await rescheduleAppointment(
      world.log,
      { appointmentId, clinicId, ...move },
      createTestOperatorContext(context.now + 1),
    );
    await database.given(appointmentRequested(clinicId, branchId, before, { appointmentId, customerId, animalId }), {
      type: "AppointmentRescheduled",
      data: { appointmentId, durationMinutes: 30, ...move },
    });
    await page.getByRole("tab", { name: "Appointment", exact: true }).click();
    await page.locator("#appointment-day").fill("2026-11-27");
    await page.locator("#appointment-time").fill("08:30");
    await page.keyboard.press("Enter");
    await page.getByText("1 appointment on 2026-11-27 at 08:30").waitFor();
    await page.getByText("moved to 2026-11-27 15:00 UTC+3").waitFor();
    await requireAccessible("a moved appointment");
    await page.getByRole("link", { name: "2026-11-27 08:30 UTC+3" }).click();
    await page.getByText("2 events", { exact: true }).waitFor();
    const sentence = "Moved from Fri 27 Nov 2026, 08:30 to 15:00";
    expect(await page.locator("#panel-timeline .sentence").allInnerTexts()).to.deep.equal([
      "For Fri 27 Nov 2026, 08:30, 30 min",
      `${sentence}, reason: Power cut <b>`,
    ]);
    expect(await page.locator("#panel-timeline .where").allInnerTexts())
      .to.satisfy(([first]: string[]) => first?.includes("Pamuk 2026-11-27 08:30 UTC+3"))
      .and.satisfy(([, second]: string[]) => second?.includes("Pamuk 2026-11-27 15:00 UTC+3"));
    await page.getByRole("button", { name: "Appointment rescheduled" }).click();
    const detail = page.locator("#detail-body .sentence");
    await detail.waitFor();
    expect(await detail.innerText()).to.equal(`${sentence} by operator test, reason: Power cut <b>`);
    await requireAccessible("a move");
    await search("appointment", history.appointmentId);
    await page.getByRole("button", { name: "Appointment confirmed" }).click();
  });

  it("the audit page shows the state after the event that the user selects with slider, button or keyboard", async () => {
    const waitForStatus = (value: string) =>
      page
        .getByRole("region", { name: "State" })
        .getByRole("row", { name: `status changed ${value}` })
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
    await page.keyboard.press("ArrowRight");
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
    await awaitSearch(() => page.goto(`${world.url}/audit#stream=${history.stream}`));
    await page.getByRole("button", { name: "Appointment requested" }).click();
    await page.getByRole("link", { name: history.requestContext.correlationId }).click();
    await page.getByText("1 event", { exact: true }).waitFor();
    await page.goBack();
    await page.getByText("3 events", { exact: true }).waitFor();
    await search("customer", foreignHistory.customerId);
    await page.getByText("No visible events match this search.").waitFor();
  });

  it("the audit page exports the events of the selected clinic to a file", async () => {
    await page.getByRole("tab", { name: "Export" }).click();
    await requireAccessible("the export");
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Export", exact: true }).click(),
    ]);
    expect(download.suggestedFilename()).to.equal(`audit-${history.clinicId}.ndjson`);
    const lines = (await readFile(await download.path(), "utf8")).trimEnd().split("\n");
    expect(lines.some((line) => line.includes(history.appointmentId))).to.equal(true);
    await page.getByText("To verify it, run clinic audit verify").waitFor();
    await requireAccessible("an export");
  });

  it("the audit page marks an event whose personal data was erased", async () => {
    const dataKeys = createTestDataKeys(database.admin);
    const customer = { customerId: randomUUID(), clinicId: history.clinicId, phone: null, email: null, city: null };
    const client = connectEventStore(world.env.EVENTSTORE_URL ?? "", "test");
    const log = createEventLog(client, { dataKeys });
    await registerCustomer(log, { ...customer, fullName: "Ana Kos" }, createTestOperatorContext());
    await client.dispose();
    await dataKeys.destroy({ type: "customer", id: customer.customerId });
    await search("customer", customer.customerId);
    await page.getByRole("button", { name: "Customer registered erased" }).click();
    await page.getByText("The personal data of this event was erased.").waitFor();
    await page.getByRole("region", { name: "State" }).getByText("(erased)").first().waitFor();
  });

  it("the audit page fits a narrow screen", async () => {
    await page.setViewportSize({ width: 320, height: 640 });
    await search("appointment", history.appointmentId);
    await page.getByRole("button", { name: "Appointment confirmed" }).click();
    await page.getByRole("region", { name: "State" }).waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).to.be.at.most(320);
    await requireAccessible("a narrow screen");
  });

  it("the audit page signs a revoked auditor out, removes all data, and continues the search after the next sign-in", async () => {
    await auditor.revoke();
    await page.locator("#subject").press("Enter");
    await page.getByText("The credential is invalid, expired or revoked. Sign in again").waitFor();
    expect(await page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]")).to.eql([0, 0, ""]);
    expect(await readTimeline()).to.deep.equal([]);
    expect(await page.locator("#desk").evaluate((desk) => desk.textContent)).not.to.match(/Yilmaz|Pamuk|Happy Paws/);
    const nextAuditor = await world.registerAuditor([history.clinicId]);
    await signIn(nextAuditor.credential);
    await page.getByRole("heading", { name: "Events of appointment Pamuk" }).waitFor();
    expect(problems.splice(0).filter((line) => !line.includes("401"))).to.deep.equal([]);
  });

  it("while the read models are unavailable, the audit page says so, and searches by id still work", async () => {
    await database.admin.query(`REVOKE ALL ON ALL TABLES IN SCHEMA ${READ_MODEL_SCHEMA} FROM clinic_audit`);
    await page.goto("about:blank");
    await page.goto(`${world.url}/audit`);
    await page.getByText("Names are unavailable at the moment. You can still search by id.").waitFor();
    await page.getByRole("heading", { name: `Latest events of ${history.clinicId}` }).waitFor();
    await search("appointment", history.appointmentId);
    expect(await readTimeline()).to.have.length(3);
    await requireAccessible("unavailable names");
    expect(problems.filter((line) => !line.includes("503"))).to.deep.equal([]);
  });
});
