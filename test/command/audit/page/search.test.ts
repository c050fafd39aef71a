import { readFile } from "node:fs/promises";
import { expect } from "chai";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { runAuditCommand } from "../cli-terminal.ts";
import { createClinicWithHistory, fillReadModels } from "../world.ts";
import { type AuditPage, startAuditPage } from "./audit-page.ts";

describe("the searches of the page /audit", function () {
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

  it("the audit page finds a customer by a part of the name, with the keyboard only", async () => {
    await page.keyboard.type("YILM");
    await page.keyboard.press("Enter");
    await page.getByText("1 name matches").waitFor();
    await audit.requireAccessible("the matches");
    const link = page.getByRole("link", { name: "Ada Yilmaz" });
    while (!(await link.evaluate((element) => element.matches(":focus")))) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Events of customer Ada Yilmaz" }).waitFor();
    await page.getByText(/^5 events, in the order/).waitFor();
    expect(await page.getByRole("link", { name: "Ada Yilmaz" }).isVisible(), "folded matches").to.equal(false);
    expect(await audit.readFocusedId()).to.equal("list-title");
    expect((await audit.readTimeline())[0]).to.equal("Customer registered");
    await page.getByLabel("Part of a name").fill("nobody");
    await page.getByLabel("Part of a name").press("Enter");
    await page.getByText("No name contains this text.").waitFor();
    await page.getByLabel("Part of a name").fill("onerror");
    await page.getByLabel("Part of a name").press("Enter");
    await page.getByRole("link", { name: /^Eve <img/ }).waitFor();
  });

  it("the audit page finds appointments by day and time in the clinic's time zone", async () => {
    await audit.openTab("Appointment");
    await page.getByLabel("Day (Europe/Istanbul)", { exact: true }).fill("2026-05-06");
    await page.getByLabel("Time (Europe/Istanbul), optional").fill("13:15");
    await page.keyboard.press("Enter");
    await page.getByText("1 appointment on 2026-05-06 at 13:15").waitFor();
    await audit.requireAccessible("the appointments");
    await page.getByRole("link", { name: "2026-05-06 13:00 UTC+3" }).click();
    await page.getByText(/^3 events, in the order/).waitFor();
    await page.getByLabel("Time (Europe/Istanbul), optional").fill("14:00");
    await page.keyboard.press("Enter");
    await page.getByText("No appointment takes place at this time.").waitFor();
    const json = { appointments: [], isComplete: false, events: [], names: [] };
    await page.route("**/appointments?*", (route) => route.fulfill({ json }), { times: 1 });
    await page.keyboard.press("Enter");
    await page.getByText("There are more matches. Enter a time to see them.").waitFor();
  });

  it("the audit page finds events by actor and day, and suggests actors", async () => {
    await audit.openTab("Actor and day");
    expect(await page.locator("#known-actors option").first().getAttribute("value")).to.equal("operator:test");
    await page.getByLabel("Done by, optional").fill("operator:test");
    await page.locator("#actor-day").fill("2026-05-04");
    await page.keyboard.press("Enter");
    await page
      .getByRole("heading", { name: /^Events of clinic Happy Paws .*on 2026-05-04, done by operator:test$/ })
      .waitFor();
    await page.getByText(/^3 events, in the order/).waitFor();
    await audit.requireAccessible("the search by actor");
  });

  it("the audit page shows the clinic at a time, and what has changed since", async () => {
    await audit.openTab("Clinic at a time");
    const show = async (time: string) => {
      await page.getByLabel("Time (Europe/Istanbul)", { exact: true }).fill(time);
      await audit.clickButton("Show");
    };
    await show("2026-03-28T10:00");
    await page.getByText("The clinic was not yet registered.").waitFor();
    await page.locator("#state-body").getByText("Branch Center was opened. by operator test").waitFor();
    await audit.requireAccessible("the clinic at a time");
    await show("2099-01-01T00:00");
    await page.getByText("Center, main branch").waitFor();
    expect(await page.locator("#announcement").innerText()).to.equal("0 changes since then");
  });

  it("the audit page filters by times in the clinic's time zone, and shows them on the link again", async () => {
    await audit.openTab("Id");
    await page.evaluate(
      "document.querySelector('#search-form').reset(), (document.querySelector('#filters').open = true)",
    );
    await page.getByLabel("From (Europe/Istanbul)", { exact: true }).fill("2026-05-04T11:05");
    await page.getByLabel("Before (Europe/Istanbul)", { exact: true }).fill("2026-05-04T11:15");
    await audit.search("appointment", history.appointmentId);
    expect(await audit.readTimeline()).to.deep.equal(["Appointment confirmed"]);
    expect(await page.locator("#list-title").innerText()).to.contain("occurred from 2026-05-04 11:05 UTC+3");
    expect(await page.getByLabel("From (Europe/Istanbul)", { exact: true }).inputValue()).to.equal("2026-05-04T11:05");
    const isClipped =
      "[...document.querySelectorAll('#from, #to')].some((field) => field.scrollWidth > field.clientWidth)";
    await audit.setWidth(1440);
    expect(await page.evaluate(isClipped)).to.equal(false);
  });

  it("the page, its events with their names, and an event are one recorded access each", async () => {
    await page.goto("about:blank");
    const requests = await audit.listRequests(async () => {
      await page.goto(`${audit.world.url}/audit`);
      await page.getByText("the newest first").waitFor();
      await page.locator("#panel-timeline .event").first().getByText("Pamuk").waitFor();
      await page.locator("#panel-timeline .event").first().click();
      await page.getByRole("region", { name: "State" }).waitFor();
    });
    const paths = requests.map(({ pathname }) => pathname.slice("/audit/v1/".length));
    expect(paths).to.deep.equal(["me", "clinics", "events", "replay"]);
  });

  it("the error of a search is shown above the list, keeps the number of events, and ends with the next search", async () => {
    const count = await page.locator("#status").innerText();
    await page.route("**/search", (route) => route.fulfill({ status: 500, json: { error: "unexpected" } }));
    await page.getByLabel("Part of a name").fill("yilmaz");
    await page.getByLabel("Part of a name").press("Enter");
    const alert = page.locator("#search-alert");
    await alert.getByText("The service returned the error 500 unexpected.").waitFor();
    expect(await page.locator("#status").innerText()).to.equal(count);
    await page.unroute("**/search");
    await page.getByLabel("Part of a name").press("Enter");
    await page.getByText("1 name matches").waitFor();
    expect(await alert.innerText()).to.equal("");
    audit.expectProblems(/500/);
  });

  it("the audit page shows the accesses to the subject on screen, in a period or on a day", async () => {
    const showAccesses = async (kind: string, id: string) => {
      await audit.search(kind, id);
      await audit.openTab("Accesses");
      await page.locator("#accesses-body .summary").waitFor();
      return (await page.locator(".access", { hasText: "state of a record by" }).allInnerTexts()).join("\n");
    };
    const { animalId, customerId } = history;
    const reader = await audit.world.registerAuditor([history.clinicId]);
    await reader.request(`/audit/v1/state?stream=clinic-${history.clinicId}`);
    await reader.request(`/audit/v1/state?stream=${history.stream}`);
    expect(await showAccesses("animal", animalId))
      .to.match(/^appointment Pamuk/m)
      .and.not.match(/^clinic Happy/m);
    expect(await page.locator("#accesses-hint").innerText()).to.match(/data of animal Pamuk/);
    const limit = page.getByText("Only accesses of auditors and operators are recorded.");
    const [limitStyle, listStyle] = await page.evaluate<string[]>(
      `["#accesses-limit", ".accesses"].map((selector) => {
        const { color, fontSize } = getComputedStyle(document.querySelector(selector));
        return color + " " + fontSize;
      })`,
    );
    expect(limitStyle, "The sentence is as visible as the list.").to.equal(listStyle);
    expect(await limit.isVisible()).to.equal(true);
    expect(await showAccesses("clinic", history.clinicId)).to.match(/^clinic Happy/m);
    expect(await page.getByRole("list", { name: "Readers" }).innerText()).to.contain("auditor Ada Audit");
    await showAccesses("customer", customerId);
    expect(await page.locator("#accesses-body .summary").innerText()).to.match(/^2 readers: .*Ada Audit/);
    await page.locator("#access-day").focus();
    await page.keyboard.type("05042026");
    await page.getByText("No recorded access in this period.").waitFor();
    expect(await page.getByLabel("Period").inputValue()).to.equal("day");
    await audit.requireAccessible("the accesses on a day");
    await page.getByLabel("Period").selectOption("30");
    await page.locator("#accesses-body .summary").waitFor();
    expect(await page.locator("#access-day").inputValue()).to.equal("");
    await page.getByLabel("Period").selectOption("day");
    await page.getByText("Select a day.").waitFor();
    await page.getByLabel("Period").selectOption("30");
    const reading = page.locator(".access", { hasText: "list of readers and accesses by auditor Ada Audit" });
    await reading.first().waitFor();
    expect(await reading.first().innerText()).to.match(
      /customer Ada Yilmaz ?[\s\S]*from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\+3/,
    );
    await audit.search("clinic", history.clinicId);
  });

  it("the audit page shows who read the clinic's data, with names", async () => {
    await audit.openTab("Accesses");
    const accesses = page.getByRole("list", { name: "Accesses" });
    await accesses.getByText("search by name by auditor Ada Audit").first().waitFor();
    expect(await accesses.innerText())
      .to.contain("name (withheld)")
      .and.to.match(/UTC\+3/);
    await audit.requireAccessible("the accesses");
  });

  it("the audit page supports links and the Back button, and shows no events of another clinic", async () => {
    const foreignHistory = await createClinicWithHistory(audit.world.log);
    await audit.awaitSearch(() => page.goto(`${audit.world.url}/audit#stream=${history.stream}`));
    await page.getByRole("button", { name: "Appointment requested" }).click();
    await page.getByRole("link", { name: "all its events" }).click();
    await page.getByText("1 event", { exact: true }).waitFor();
    await page.goBack();
    await page.getByText(/^3 events, in the order/).waitFor();
    await audit.search("customer", foreignHistory.customerId);
    await page.getByText("No visible events match this search.").waitFor();
  });

  it("the audit page exports the events of the selected clinic to a file", async () => {
    await audit.openTab("Export");
    await audit.requireAccessible("the export");
    const [download] = await Promise.all([page.waitForEvent("download"), audit.clickButton("Export")]);
    expect(download.suggestedFilename()).to.equal(`audit-${history.clinicId}.ndjson`);
    const lines = (await readFile(await download.path(), "utf8")).trimEnd().split("\n");
    expect(lines.some((line) => line.includes(history.appointmentId))).to.equal(true);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await audit.clickButton("Copy");
    await page.getByText("Copied.").waitFor();
    const command = await page.evaluate<string>("navigator.clipboard.readText()");
    await audit.requireAccessible("an export");
    const [clinic, group, verify = "", file, ...options] = command.split(" ");
    expect([clinic, group, verify, file]).to.eql(["clinic", "audit", "verify", download.suggestedFilename()]);
    const result = await runAuditCommand([verify, await download.path(), ...options]);
    expect([result.code, result.errorLines]).to.deep.equal([0, []]);
    const message = "The log does not return revision 2 of clinic-1.";
    const lastLine = JSON.stringify({ error: "events_missing", message });
    await page.route("**/export?*", (route) => route.fulfill({ body: `{"actor":null}\n${lastLine}\n` }), { times: 1 });
    await audit.clickButton("Export");
    await page.locator("#search-alert", { hasText: message }).waitFor();
    expect(await page.locator("#export-status").innerText()).to.equal("");
  });

  it("an auditor of several clinics searches all of them from one field, with the keyboard only, and no other clinic", async () => {
    const [otherHistory, foreignHistory] = [
      await createClinicWithHistory(audit.world.log),
      await createClinicWithHistory(audit.world.log),
    ];
    await fillReadModels(audit.database, otherHistory);
    await fillReadModels(audit.database, foreignHistory);
    const reader = await audit.world.registerAuditor([history.clinicId, otherHistory.clinicId]);
    await audit.signOut();
    await page.evaluate("location.hash = ''");
    await audit.signIn(reader.credential);
    await page.getByText("Ada Audit, 2 clinics").waitFor();
    await page.locator("#name:focus").waitFor();
    await page.keyboard.type("yilmaz");
    await page.keyboard.press("Enter");
    await page.getByText("2 names match", { exact: true }).waitFor();
    await audit.requireAccessible("the matches in several clinics");
    const links = page.locator("#matches-body a", { hasText: "Who read this" });
    const hrefs = await links.evaluateAll((elements) => elements.map((element) => element.getAttribute("href")));
    const customers = [history, otherHistory].map(({ customerId }) => `#customer=${customerId}&view=accesses`);
    expect(hrefs).to.have.members(customers);
    const link = links.nth(hrefs.indexOf(customers[1] ?? ""));
    while (!(await link.evaluate((element) => element.matches(":focus")))) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.locator("#accesses-body .summary", { hasText: "1 reader: auditor Ada Audit" }).waitFor();
    expect(await page.getByLabel("Clinic", { exact: true }).inputValue()).to.equal(otherHistory.clinicId);
    await page.goto("about:blank");
    await page.goto(`${audit.world.url}/audit`);
    await page.getByText("the newest first").waitFor();
    expect(await page.getByLabel("Clinic", { exact: true }).inputValue()).to.equal(otherHistory.clinicId);
    await page.getByLabel("Part of a name").fill("yilmaz");
    await audit.clickButton("Search the selected clinic");
    await page.getByText("1 name matches", { exact: true }).waitFor();
    const setZone = `UPDATE ${READ_MODEL_SCHEMA}.clinic SET timezone = 'Europe/Zurich' WHERE clinic_id = $1`;
    await audit.database.admin.query(setZone, [otherHistory.clinicId]);
    await page.reload();
    await page.getByText("the newest first").waitFor();
    await page.getByLabel("Clinic", { exact: true }).selectOption(history.clinicId);
    await page.getByText("Time zone Europe/Istanbul.").waitFor();
    const search = `#appointment=${otherHistory.appointmentId}&from=2026-05-04T08:05:00.000Z`;
    await audit.awaitSearch(() => page.evaluate(`location.hash = "${search}"`));
    expect(await page.getByLabel("From (Europe/Zurich)", { exact: true }).inputValue()).to.equal("2026-05-04T10:05");
  });

  it("the page caused no errors, no requests to other origins, and no URLs with names or credentials", () => {
    audit.expectProblems(/nothing/);
  });
});
