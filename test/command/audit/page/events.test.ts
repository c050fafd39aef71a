import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { requestAppointment, rescheduleAppointment } from "../../../../command/operations/appointment-operations.ts";
import { registerCustomer } from "../../../../command/operations/customer-operations.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { createEventLog } from "../../../../shared/eventstore/log.ts";
import { appointmentRequested } from "../../../support/clinics.ts";
import { createTestDataKeys } from "../../../support/data-keys.ts";
import { createTestOperatorContext } from "../../../support/partner.ts";
import { CONFIRMATION_NOTE } from "../world.ts";
import { type AuditPage, startAuditPage } from "./audit-page.ts";

const [BEFORE, AFTER] = ["2026-11-27T05:30:00.000Z", "2026-11-27T12:00:00.000Z"];
const REQUESTED_MS = Date.parse("2026-05-04T08:00:00Z");

describe("the events on the page /audit", function () {
  this.timeout(180_000);
  let audit: AuditPage;
  let page: AuditPage["page"];
  let history: AuditPage["history"];

  before(async () => {
    audit = await startAuditPage();
    ({ page, history } = audit);
    await audit.openDesk();
  });

  after(() => audit?.stop());

  /** Requests an appointment at 08:30 in the clinic's time zone. */
  async function request(): Promise<string> {
    const { clinicId, branchId, animalId } = history;
    const appointmentId = randomUUID();
    const details = { animalId, durationMinutes: 30, reason: "Limping", notes: null };
    const appointment = { appointmentId, clinicId, branchId, scheduledAt: BEFORE, ...details };
    await requestAppointment(audit.world.log, appointment, createTestOperatorContext(REQUESTED_MS));
    return appointmentId;
  }

  /**
   * Moves an appointment to 15:00 in the clinic's time zone. The causation id is random, as if another event caused it.
   */
  async function move(appointmentId: string, reason: string | null): Promise<void> {
    const context = { ...createTestOperatorContext(REQUESTED_MS + 1), causationId: randomUUID() };
    const { clinicId } = history;
    await rescheduleAppointment(audit.world.log, { appointmentId, clinicId, scheduledAt: AFTER, reason }, context);
  }

  it("the audit page shows the events of an appointment and the changes of each event", async () => {
    await audit.search("appointment", history.appointmentId);
    expect(await audit.readTimeline()).to.deep.equal([
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
    await audit.requireAccessible("an event");
  });

  it("the audit page shows a move on the day before the move, and in a sentence with the reason", async () => {
    const { clinicId, branchId, animalId, customerId } = history;
    const appointmentId = await request();
    await move(appointmentId, "Power cut <b>");
    await audit.database.given(
      appointmentRequested(clinicId, branchId, BEFORE, { appointmentId, customerId, animalId }),
      {
        type: "AppointmentRescheduled",
        data: { appointmentId, durationMinutes: 30, scheduledAt: AFTER, reason: "Power cut <b>" },
      },
    );
    await audit.openTab("Appointment");
    await page.locator("#appointment-day").fill("2026-11-27");
    await page.locator("#appointment-time").fill("08:30");
    await page.keyboard.press("Enter");
    await page.getByText("1 appointment on 2026-11-27 at 08:30").waitFor();
    const sentence = "Moved from Fri 27 Nov 2026, 08:30 to 15:00";
    const reason = "reason: Power cut <b>";
    const explanation = `${sentence} by operator test, 2026-05-04 11:00:00 UTC+3, ${reason}`;
    await page.locator(".moved").getByText(explanation, { exact: true }).waitFor();
    await page.locator("#appointment-time").fill("15:00");
    await page.keyboard.press("Enter");
    await page.getByText("1 appointment on 2026-11-27 at 15:00").waitFor();
    await page.locator(".moved").getByText(explanation, { exact: true }).waitFor();
    await audit.requireAccessible("a moved appointment");
    await page.getByRole("link", { name: "2026-11-27 15:00 UTC+3" }).click();
    await page.getByText(/^2 events, in the order/).waitFor();
    expect(await page.locator("#panel-timeline .sentence").allInnerTexts()).to.deep.equal([
      "For Fri 27 Nov 2026, 08:30, 30 min, reason for the visit: Limping",
      `${sentence}, ${reason}`,
    ]);
    expect(await page.locator("#panel-timeline .where").allInnerTexts())
      .to.satisfy(([first]: string[]) => first?.includes("Pamuk 2026-11-27 08:30 UTC+3"))
      .and.satisfy(([, second]: string[]) => second?.includes("Pamuk 2026-11-27 15:00 UTC+3"));
    await page.getByRole("button", { name: "Appointment rescheduled" }).click();
    const detail = page.locator("#detail-body .sentence");
    await detail.waitFor();
    expect(await detail.innerText()).to.equal(`${sentence} by operator test, ${reason}`);
    await audit.requireAccessible("a move");
    await audit.openTab("Causes");
    expect((await page.locator("#panel-causes .root").allInnerTexts())[1]).to.equal(
      "An event outside this list. Show all events of its request",
    );
    await audit.awaitSearch(() => page.getByRole("link", { name: "Show all events of its request" }).click());
    expect(await audit.readTimeline()).to.deep.equal(["Appointment rescheduled"]);
    await audit.search("appointment", history.appointmentId);
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
    expect(await audit.readFocusedId()).to.equal("point");
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
    expect(await page.locator("#panel-causes .root").allInnerTexts()).to.deep.equal(
      ["11:00:00", "11:10:00", "11:20:00"].map((time) => `Request by operator test, 2026-05-04 ${time} UTC+3`),
    );
    await audit.requireAccessible("the causes");
    await page.keyboard.press("ArrowRight");
    await page.getByRole("article").first().waitFor();
    expect(await page.getByRole("article").count()).to.equal(1);
    expect(await page.getByRole("article").innerText())
      .to.contain("failed")
      .and.contain("42 ms")
      .and.contain("onerror");
    await audit.requireAccessible("the deliveries");
  });

  it("the state after an event that was stored since the stream was read is shown once the event is listed", async () => {
    const appointmentId = await request();
    await page.route("**/events?*", (route) =>
      route.continue({ url: route.request().url().replace("limit=500", "limit=1") }),
    );
    await audit.search("appointment", appointmentId);
    const state = page.getByRole("region", { name: "State" });
    await page.getByRole("button", { name: "Appointment requested" }).click();
    await page.getByText("After event 1 of 1").waitFor();
    await move(appointmentId, null);
    await audit.clickButton("Show more");
    await page.getByRole("button", { name: "Appointment rescheduled" }).click();
    await page.getByText("After event 2 of 2").waitFor();
    expect(await state.innerText()).to.contain("2026-11-27 15:00:00 UTC+3");
    await page.unroute("**/events?*");
  });

  it("the deliveries of several appointments are one request, because each request is a recorded access", async () => {
    await audit.search("clinic", history.clinicId);
    const requests = await audit.listRequests(async () => {
      await audit.openTab("Deliveries");
      await page.getByRole("article").first().waitFor();
    });
    expect(requests.map(({ pathname }) => pathname)).to.deep.equal(["/audit/v1/deliveries"]);
    expect(requests[0]?.searchParams.get("stream")?.split(",")).to.include(history.stream).and.have.length.above(1);
    await audit.openTab("Timeline");
  });

  it("events that this release cannot read are listed like others", async () => {
    const path = `/audit/v1/events?appointment=${history.appointmentId}`;
    const [requested] = (await audit.auditor.request(path)).lines;
    const problem = "missing_in_log";
    const changes = [
      { data: null, problem },
      { data: "AP/+", problem },
      { type: "AppointmentRescheduled", revision: 1 },
      { type: "ResourceAllocated", data: { allocationStart: 7 }, problem, stream: "resource-1" },
      { occurredAt: "2026-99-99T99:99:99.999Z", problem, causationId: null },
    ];
    const lines = changes.map((change, n) => ({ ...requested, id: `event-${n}`, ...change }));
    await page.route("**/events?*", (route) => {
      const body = [...lines, { end: { next: "7", names: [] } }].map((line) => `${JSON.stringify(line)}\n`).join("");
      return route.fulfill({ body });
    });
    await audit.search("appointment", history.appointmentId);
    expect(await audit.readTimeline()).to.have.length(changes.length);
    expect(await page.locator("#panel-timeline").innerText()).to.contain("2026-99-99T99:99:99.999Z");
    await page.getByRole("button", { name: "Show more" }).waitFor();
    await audit.openTab("Causes");
    await page.getByText("Cause unknown").waitFor();
    await page.unroute("**/events?*");
    await audit.openTab("Timeline");
  });

  it("a screen reader hears what a click has changed in a list", async () => {
    await audit.search("appointment", history.appointmentId);
    const expectAnnouncement = (text: string | RegExp) => page.getByRole("status").filter({ hasText: text }).waitFor();
    await expectAnnouncement("3 events, in the order in which they were stored");
    await page.getByRole("button", { name: "Appointment confirmed" }).click();
    await expectAnnouncement("Appointment confirmed: 2 changes");
    for (const [tab, text] of [
      ["Causes", "3 events with 3 causes"],
      ["Deliveries", "1 webhook delivery"],
      ["Accesses", /^\d+ access(es)?$/],
    ] as const) {
      await audit.openTab(tab);
      await expectAnnouncement(text);
    }
    await audit.openTab("Timeline");
  });

  it("the second page of a long list is added without touching or searching the first, and gets the focus", async () => {
    const path = `/audit/v1/events?appointment=${history.appointmentId}`;
    const [requested] = (await audit.auditor.request(path)).lines;
    const createEvent = (n: number, changes: object = {}) =>
      JSON.stringify({ ...requested, id: `event-${n}`, stream: `appointment-${n}`, ...changes });
    // The last event of the first page moves the appointment of the last event of the second page.
    const type = "AppointmentRescheduled";
    const moved = { type, stream: "appointment-999", revision: 1, data: { ...requested.data, scheduledAt: AFTER } };
    await page.route("**/events?*", (route) => {
      const start = Number(new URL(route.request().url()).searchParams.get("after") ?? 0);
      const lines = Array.from({ length: 500 }, (_, n) => createEvent(start + n, start + n === 499 ? moved : {}));
      const end = JSON.stringify({ end: { next: start === 0 ? "500" : null, names: [] } });
      return route.fulfill({ body: [...lines, end].map((line) => `${line}\n`).join("") });
    });
    await audit.search("appointment", history.appointmentId);
    const lastSentence = page.locator(".event[data-id=event-499] .sentence");
    expect(await lastSentence.innerText()).to.match(/^Moved to/);
    await page.evaluate(`
      window.counts = { searches: 0, changes: 0 };
      for (const prototype of [Document.prototype, Element.prototype])
        for (const name of ["querySelector", "querySelectorAll", "getElementsByClassName"]) {
          const search = prototype[name];
          prototype[name] = function (...args) { counts.searches += 1; return search.apply(this, args); };
        }
      new MutationObserver((records) => { counts.changes += records.length; })
        .observe(document.querySelector(".timeline"), { childList: true, characterData: true, attributes: true, subtree: true });
    `);
    await page.getByRole("button", { name: "Show more" }).press("Enter");
    await page.locator("#status", { hasText: "1000 events" }).waitFor();
    const { searches, changes } = await page.evaluate<{ searches: number; changes: number }>("counts");
    expect(await lastSentence.innerText()).to.match(/^Moved from/);
    expect(await page.evaluate("document.activeElement.dataset.id")).to.equal("event-500");
    expect(searches, "searches in the document").to.be.below(50);
    // Each new event is filled in, and so is the one that waited for an event of the second page.
    expect(changes, "changes of the list").to.be.below(1_100);
    await page.unroute("**/events?*");
  });

  it("the audit page marks an event whose personal data was erased", async () => {
    const dataKeys = createTestDataKeys(audit.database.admin);
    const customer = { customerId: randomUUID(), clinicId: history.clinicId, phone: null, email: null, city: null };
    const client = connectEventStore(audit.world.env.EVENTSTORE_URL ?? "", "test");
    const log = createEventLog(client, { dataKeys });
    await registerCustomer(log, { ...customer, fullName: "Ana Kos" }, createTestOperatorContext());
    await client.dispose();
    await dataKeys.destroy({ type: "customer", id: customer.customerId });
    await audit.search("customer", customer.customerId);
    await page.getByRole("button", { name: "Customer registered erased" }).click();
    await page.getByText("The personal data of this event was erased.").waitFor();
    await page.getByRole("region", { name: "State" }).getByText("(erased)").first().waitFor();
  });

  it("the audit page fits a narrow screen", async () => {
    await page.setViewportSize({ width: 320, height: 640 });
    await audit.search("appointment", history.appointmentId);
    await page.getByRole("button", { name: "Appointment confirmed" }).click();
    await page.getByRole("region", { name: "State" }).waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).to.be.at.most(320);
    await page.locator("#detail-title:focus").waitFor();
    await page.keyboard.press("Tab");
    await page.getByRole("button", { name: "Back to the list" }).and(page.locator(":focus")).waitFor();
    await page.keyboard.press("Enter");
    await page.locator(".event:focus", { hasText: "Appointment confirmed" }).waitFor();
    await audit.requireAccessible("a narrow screen");
  });

  it("the page caused no errors, no requests to other origins, and no URLs with names or credentials", () => {
    audit.expectProblems(/nothing/);
  });
});
