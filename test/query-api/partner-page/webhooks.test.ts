import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { eventually } from "../../support/eventually.ts";
import { ATTACK_HTML } from "../../support/test-page.ts";
import { type PartnerPage, startPartnerPage } from "./partner-page.ts";

describe("the webhooks and appointments on the page /partner", function () {
  this.timeout(180_000);
  let world: PartnerPage;
  let page: PartnerPage["page"];
  let skippedId = "";

  before(async () => {
    world = await startPartnerPage();
    page = world.page;
    await world.signIn(world.partner);
    await page.getByText("No endpoints at Sandbox Clinic yet.").waitFor();
  });

  after(() => world?.stop());

  const waitForDelivery = (status: string) =>
    page.locator(".deliveries summary", { hasText: status }).first().waitFor();

  /** Waits until the page requests a replay. Returns the body of the request. */
  const waitForReplay = async () => (await page.waitForRequest(/\/replays$/)).postDataJSON();

  it("the partner page creates an endpoint with the keyboard only, and shows its secret once", async () => {
    await world.openTab("Webhooks");
    await page.getByRole("textbox", { name: "URL" }).fill("https://10.0.0.1/");
    await page.keyboard.press("Enter");
    await page.locator("#endpoint-form-alert", { hasText: "Correlation id" }).waitFor();
    expect(await world.readFocusedId()).to.equal("endpoint-url");
    expect(await page.locator("#endpoint-form-alert").innerText()).to.match(/^Check your input\. URL: The /);
    world.expectProblems(/400/);
    await page.getByRole("textbox", { name: "URL" }).fill(`${world.receiver.url}/hook?%3Cscript%3E`);
    // The link of the error, the first event, and the second one.
    for (const key of ["Tab", "Tab", "Tab", "Space"]) await page.keyboard.press(key);
    // The secret is shown before the list of endpoints is loaded.
    const secretHint = page.getByText("Store this secret now.");
    await page.route("**/webhook-endpoints", async (route) => {
      if (route.request().method() === "GET") await secretHint.waitFor();
      await route.continue();
    });
    await page.keyboard.press("Enter");
    await secretHint.waitFor();
    await page.unroute("**/webhook-endpoints");
    expect(await world.readFocusedId()).to.equal("secret-title");
    const secret = await page.getByRole("textbox", { name: "Signing secret" }).inputValue();
    expect(secret).to.match(/^whsec_/);
    await world.requireAccessible("a new endpoint");
    await world.clickButton("I have stored it");
    expect(await world.readFocusedId()).to.equal("endpoint-title");
    expect(await world.readAllText()).to.not.contain(secret);
    await page.locator("#endpoint-settings", { hasText: "Endpoint id" }).waitFor();
    expect(await page.locator("#endpoint-settings").innerText())
      .to.contain("appointment.created")
      .and.contain("all branches of the installation");
    const listedEvents = await page.locator("#endpoint-settings dd .tag").allInnerTexts();
    expect(listedEvents).to.deep.equal(["appointment.created"]);
  });

  it("the partner page shows a failing endpoint with the receiver's answers as text, and replays a delivery", async () => {
    world.receiver.queueReactions({ status: 500, body: ATTACK_HTML }, { status: 503, body: "busy" });
    await world.clickButton("Send test event");
    await waitForDelivery("failed");
    await page.getByText(/^Failing since .*: all 2 attempts since then failed/).waitFor();
    await page.getByRole("img", { name: "Last 24 hours: 0 delivered, 1 failed" }).waitFor();
    expect(await page.locator(".choice .tag").innerText()).to.equal("failing");
    await page.locator(".deliveries summary", { hasText: "503" }).click();
    const attempts = page.getByRole("region", { name: /^Attempts of/ });
    expect(await attempts.innerText())
      .to.contain("<script>")
      .and.contain("503")
      .and.contain("busy");
    const [request] = world.receiver.requests;
    const shownBody = await page.getByRole("region", { name: /^Body of/ }).innerText();
    expect(JSON.parse(shownBody)).to.deep.equal(JSON.parse(request!.body));
    const shownHeaders = await page.getByRole("region", { name: /^Headers of/ }).innerText();
    expect(shownHeaders).to.contain(`webhook-id: ${request!.headers["webhook-id"]}`);
    expect(await page.locator("#desk img, #desk script").count()).to.equal(0);
    expect(await page.title()).to.equal("Partner · Clinic Service");
    await world.requireAccessible("a failed delivery");
    await world.clickButton("Replay");
    await waitForDelivery("delivered");
    await page.getByRole("button", { name: "Send again" }).waitFor();
    await page.getByRole("button", { name: "Replay failed deliveries" }).waitFor({ state: "hidden" });
    await page.getByText("Working. The latest successful delivery was at").waitFor();
    expect(await attempts.innerText(), "The delivery is still open.").to.contain("200");
  });

  it("the partner page creates an appointment once per idempotency key, and shows its deliveries", async () => {
    await world.openTab("Appointments");
    await page.locator("#appointments-status", { hasText: /appointments$/ }).waitFor();
    const replayHint = page.getByText("The key was already used: the API returned its first response");
    await page.route("**/appointments?*", async (route) => {
      await replayHint.waitFor();
      await route.continue();
    });
    const start = page.getByLabel("Start (Europe/London)");
    const proposedStart = await start.inputValue();
    await start.fill("2027-03-28T01:30");
    await world.clickButton("Create appointment");
    await page.getByText("the clinic's clocks skip this time").waitFor();
    await start.fill(proposedStart);
    await page.getByLabel("Notes, optional").fill(ATTACK_HTML);
    await world.clickButton("Create appointment");
    await page.getByText(/^Created appointment/).waitFor();
    await page.getByLabel("Start (Europe/London)").press("Enter");
    // The button works again before the list of appointments is loaded.
    await replayHint.waitFor();
    await page.unroute("**/appointments?*");
    const key = page.getByLabel("Idempotency key");
    const usedKey = await key.inputValue();
    await page.getByLabel("Notes, optional").fill("other notes");
    expect(await key.inputValue(), "the key of a changed form")
      .to.match(/^[0-9a-f]{32}$/)
      .and.not.equal(usedKey);
    await key.fill(usedKey);
    await world.clickButton("Create appointment");
    await page.getByText("The key was already used for a different appointment. Use a new key.").waitFor();
    const readDocPath = () => page.getByRole("link", { name: "About this error" }).getAttribute("href");
    expect(await readDocPath()).to.equal("/docs#error-idempotency_conflict");
    await world.openTab("Requests");
    await page.locator(".request", { hasText: "409" }).first().click();
    expect(await readDocPath(), "in the list of requests").to.equal("/docs#error-idempotency_conflict");
    await world.openTab("Appointments");
    world.expectProblems(/409/);
    const row = page.getByRole("row", { name: "onerror" });
    const rowText = await row.innerText();
    expect(rowText).to.contain("Biscuit").and.contain("10:00 UTC");
    await world.requireAccessible("the appointments");
    await row.getByRole("button", { name: "Deliveries" }).click();
    await waitForDelivery("delivered");
    const appointmentId = new URLSearchParams(new URL(page.url()).hash.slice(1)).get("appointmentId");
    expect(await page.locator(".deliveries summary .id").getAttribute("title")).to.equal(appointmentId);
    expect(rowText).to.contain(appointmentId);
    expect(await page.locator(".deliveries summary").allInnerTexts()).to.have.length(1);
    await page.getByLabel("Status").selectOption("failed");
    await page.getByText("No delivery matches the filters.").waitFor();
    await page.getByText("Active. Send a test event to try it.").waitFor();
    await world.clickButton("Clear filters");
    await page.locator(".deliveries summary").nth(1).waitFor();
  });

  it("in the sandbox, the partner plays the clinic, which confirms, moves, checks in and completes an appointment", async () => {
    await world.openTab("Appointments");
    const row = page.getByRole("row", { name: "onerror" });
    const play = async (label: string, text: string) => {
      await row.getByRole("button", { name: label, exact: true }).press("Enter");
      await page.locator("#appointments-status", { hasText: text }).waitFor();
      expect(await page.evaluate("document.activeElement.textContent")).to.equal("Deliveries");
    };
    await play("Confirm", ": confirmed, ");
    await world.requireAccessible("an appointment that the partner can play");
    const dialog = page.getByRole("dialog");
    const [appointmentId] = /[0-9a-f-]{36}/.exec(await row.innerText())!;
    await row.getByRole("button", { name: "No show" }).click();
    expect(await dialog.innerText()).to.contain(appointmentId);
    await world.clickButton("Go back");
    await row.getByRole("button", { name: "Move" }).click();
    expect(await dialog.innerText())
      .to.contain("Biscuit")
      .and.contain(appointmentId);
    expect(await dialog.locator(".danger").count(), "a move can be undone").to.equal(0);
    await page.getByLabel("New time (Europe/London)").fill("2099-03-29T01:30");
    await world.confirm("Move");
    await page.getByText("the clinic's clocks skip this time").waitFor();
    await row.getByRole("button", { name: "Move" }).click();
    await page.getByLabel("New time (Europe/London)").fill("2099-06-01T09:15");
    await world.requireAccessible("the dialog with a new start");
    await world.confirm("Move");
    await page.locator("#appointments-status", { hasText: ": confirmed, 2099-06-01 09:15 UTC+1" }).waitFor();
    await play("Check in", ": checked in, ");
    await play("Start consultation", ": in consultation, ");
    await play("Complete", ": completed, ");
    expect(await row.getByRole("button").allInnerTexts()).to.deep.equal(["Deliveries"]);
    const fixtureRow = page.getByRole("row").filter({ hasNotText: "onerror" }).nth(1);
    expect(await fixtureRow.getByRole("button").allInnerTexts()).to.deep.equal(["Deliveries"]);
  });

  it("the partner page lists free times, and books the chosen one", async () => {
    const { branches } = (await world.send("GET", "/sandbox")).body.sandbox;
    const from = new Date(Date.now() + 86_400_000).toISOString();
    const path = `/slots?limit=1&from=${from}&branchId=${branches[0].id}`;
    const [slot] = (await world.send("GET", path)).body.slots;
    await page.getByLabel("Branch", { exact: true }).selectOption(branches[0].id);
    await page.getByLabel("Start (Europe/London)").fill(slot.localStart.slice(0, 16));
    await world.clickButton("Find free times");
    await page.getByText(/^\d+ free times on this day\.$/).waitFor();
    await page.getByLabel("Free time, optional").selectOption({ index: 1 });
    await world.requireAccessible("the free times");
    const bookedSlot = page.locator("#slot option:checked");
    const slotText = await bookedSlot.innerText();
    const id = await world.createAppointment();
    const { body } = await world.send("GET", `/appointments/${id}`);
    expect(body.appointment.resources).to.have.length(1);
    await page.getByLabel("Notes, optional").fill("the next appointment");
    expect(await bookedSlot.innerText(), "the booked time is gone").to.contain("none");
    expect(await page.locator("#slot option").allInnerTexts()).to.not.include(slotText);
    await world.openTab("Webhooks");
    await page.getByLabel("Appointment id").fill(id.slice(0, 6));
    await page.getByLabel("Appointment id").press("Enter");
    await page.getByText(`Appointment ${id.slice(0, 8)}: 1 delivery at 1 of 1 endpoints.`).waitFor();
    await page.getByLabel("Appointment id").fill("zz");
    await page.getByLabel("Appointment id").press("Enter");
    await page.getByText("No single listed appointment has an id that starts so.").waitFor();
    await page.locator("#refresh-alert", { hasText: "appointmentId" }).waitFor();
    world.expectProblems(/400/);
    await page.getByLabel("Appointment id").fill("");
    await page.getByLabel("Appointment id").press("Enter");
    await page.getByLabel("Status").selectOption("delivered");
    await world.clickButton("Replay delivered deliveries");
    await page.getByRole("dialog", { name: /^Replay \d deliveries\?$/ }).waitFor();
    await world.confirm("Replay");
    await page.getByText(/^\d deliveries were queued again\.$/).waitFor();
    await page.getByLabel("Status").selectOption("all");
  });

  it("free times and appointments of a day end at the clinic's next midnight, also if its clocks change", async () => {
    await world.openTab("Appointments");
    const readWindow = async (path: string, button: string) => {
      const isRequest = (url: string) => url.includes(`${path}?`);
      const [request] = await Promise.all([
        page.waitForRequest((found) => isRequest(found.url())),
        world.clickButton(button),
      ]);
      const query = new URL(request.url()).searchParams;
      return [query.get("from"), query.get("to")];
    };
    for (const [date, ...window] of [
      ["2027-10-31", "2027-10-30T23:00:00.000Z", "2027-11-01T00:00:00.000Z"],
      ["2027-03-28", "2027-03-28T00:00:00.000Z", "2027-03-28T23:00:00.000Z"],
    ] as const) {
      await page.getByLabel("Start (Europe/London)").fill(`${date}T10:00`);
      expect(await readWindow("/slots", "Find free times")).to.deep.equal(window);
      await page.locator("#window-from").fill(date);
      await page.locator("#window-days").selectOption("1");
      expect(await readWindow("/appointments", "Show")).to.deep.equal(window);
    }
    await world.openTab("Webhooks");
  });

  it("the URL contains tab, endpoint and filters, for the Back button, bookmarks and shared links", async () => {
    const requestUrl = (condition: (query: URLSearchParams) => boolean) =>
      page.waitForRequest((request) => {
        const { pathname, searchParams } = new URL(request.url());
        return pathname.endsWith("/deliveries") && condition(searchParams);
      });
    await Promise.all([
      requestUrl((query) => Date.now() - Date.parse(query.get("from") ?? "") < 3_700_000 && !query.has("to")),
      page.getByLabel("Period").selectOption("last hour"),
    ]);
    await page.getByLabel("Rows").selectOption("50");
    await page.getByLabel("Period").selectOption("from … to …");
    await Promise.all([
      requestUrl((query) => query.get("from") === "2026-01-01T00:00:00.000Z" && query.get("limit") === "50"),
      page.getByLabel("From (Europe/London)").fill("2026-01-01T00:00"),
    ]);
    await page.getByLabel("Event").selectOption("endpoint.test");
    await world.requireAccessible("the filters");
    const url = page.url();
    await world.openTab("Clinic");
    await page.goBack();
    await page.getByRole("tab", { name: "Webhooks", selected: true }).waitFor();
    expect(page.url()).to.equal(url);
    await page.goto("about:blank");
    await page.goto(url);
    await page.locator(".deliveries summary", { hasText: "endpoint.test" }).waitFor();
    expect(page.url()).to.equal(url);
    expect(await page.getByLabel("Rows").inputValue()).to.equal("50");
    const [reference] = await Promise.all([
      page.waitForEvent("popup"),
      page.getByRole("link", { name: "API reference" }).click(),
    ]);
    await reference.close();
    expect(await page.locator("#desk").isVisible(), "The session has survived.").to.equal(true);
    await page.getByLabel("Period").selectOption("30 days");
    await page.getByLabel("Event").selectOption("all");
    await page.locator(".deliveries summary").nth(1).waitFor();
  });

  it("a replay says how many deliveries match the filters on the screen, and sends only these again", async () => {
    world.receiver.setDefaultReaction({ status: 500 });
    for (const count of [1, 2]) {
      await world.clickButton("Send test event");
      await page
        .locator(".deliveries summary", { hasText: "failed" })
        .nth(count - 1)
        .waitFor();
    }
    world.receiver.setDefaultReaction({});
    await page.getByLabel("Status").selectOption("delivered");
    await waitForDelivery("delivered");
    await page.getByRole("button", { name: "Replay failed deliveries" }).waitFor({ state: "hidden" });
    await page.getByLabel("Status").selectOption("failed");
    await page.getByLabel("Period").selectOption("last hour");
    await world.clickButton("Replay failed deliveries");
    await page.getByRole("dialog", { name: "Replay 2 deliveries?" }).waitFor();
    await world.requireAccessible("the confirmation of a replay");
    await world.clickButton("Go back");
    await page.getByLabel("Event").selectOption("appointment.created");
    await page.getByRole("button", { name: "Replay failed deliveries" }).waitFor({ state: "hidden" });
    await page.getByLabel("Event").selectOption("endpoint.test");
    await world.clickButton("Replay failed deliveries");
    const [selection] = await Promise.all([waitForReplay(), world.confirm("Replay")]);
    expect(selection.deliveryIds).to.have.length(2);
    await page.getByText("2 deliveries were queued again.").waitFor();
    await page.locator("#endpoint-title:focus").waitFor();
    await world.clickButton("Clear filters");
    await page.getByText("Working. The latest successful delivery was at").waitFor();
  });

  it("the partner page changes the settings of an endpoint", async () => {
    await page.getByText("Change settings").click();
    await page.getByLabel("endpoint.failing").check();
    await page.getByLabel("Riverside").check();
    await page.getByLabel("Attempts per second").fill("7");
    await page.getByLabel("Order of deliveries").selectOption("per appointment");
    await page.getByLabel("Format of the bodies").selectOption("CloudEvents 1.0");
    await page.getByLabel("Also sign with Ed25519").check();
    await page.getByLabel("New custom header").fill("X-Api-Key");
    await page.getByLabel("Value of the header").fill("hidden value");
    await world.requireAccessible("the settings");
    await world.clickButton("Save settings");
    await page.getByText("Signatures: is not available, because the operator has configured no key").waitFor();
    world.expectProblems(/400/);
    await page.getByLabel("Also sign with Ed25519").uncheck();
    await world.clickButton("Save settings");
    await page.getByText("Settings saved.").waitFor();
    expect(await page.locator("#endpoint-settings .facts").innerText())
      .to.contain("endpoint.failing")
      .and.contain("Riverside")
      .and.contain("7 attempts per second")
      .and.contain("per appointment")
      .and.contain("CloudEvents")
      .and.contain("X-Api-Key");
    expect(await world.readAllText()).to.not.contain("hidden value");
    await page.getByText("Change settings").click();
    await page.getByLabel("Attempts per second").fill("");
    await page.getByRole("group", { name: "Remove custom headers" }).getByLabel("X-Api-Key").check();
    await world.clickButton("Save settings");
    await page.locator("#endpoint-settings .facts", { hasNotText: "X-Api-Key" }).waitFor();
  });

  it("the refusal of a changed URL is in sight, next to the field, which has the focus", async () => {
    const urlField = page.getByRole("textbox", { name: "URL" });
    for (const width of [390, 1440]) {
      await page.setViewportSize({ width, height: 600 });
      await page.getByText("Change settings").click();
      await urlField.fill("https://10.0.0.1/");
      await page.getByLabel("Value of the header").focus();
      await page.keyboard.press("Enter");
      const refusal = page.locator(".field", { has: urlField }).getByRole("alert");
      await refusal.getByText("Correlation id").waitFor();
      expect(await urlField.evaluate((field) => field.matches(":focus[aria-invalid=true]"))).to.equal(true);
      const isInSight = await refusal.evaluate((element) => {
        const { left, top, bottom } = element.getBoundingClientRect();
        // Neither the edge of the window nor the buttons below the form cover the first and the last line.
        return [top + 5, bottom - 5].every((y) =>
          element.contains(element.ownerDocument.elementFromPoint(left + 20, y)),
        );
      });
      expect(isInSight, `at ${width} px`).to.equal(true);
      world.expectProblems(/400/);
      await world.requireAccessible("a refused URL");
      await page.getByText("Change settings").click();
    }
  });

  it("the form for the settings keeps its input and the focus while the receiver disables the endpoint", async () => {
    const changedUrl = `${world.receiver.url}/changed`;
    const urlField = page.getByRole("textbox", { name: "URL" });
    await page.getByText("Change settings").click();
    await urlField.fill(changedUrl);
    world.receiver.setDefaultReaction({ status: 410, mode: "hold" });
    await world.clickButton("Send test event");
    await page.getByLabel("Attempts per second").focus();
    await eventually("the attempt", () => world.receiver.countHeldRequests() === 1);
    world.receiver.setDefaultReaction({});
    world.receiver.release();
    await page.getByText("The receiver returned 410.").waitFor();
    expect(await world.readFocusedId()).to.equal("setting-rate");
    await world.clickButton("Enable");
    await page.getByText("The endpoint is active again.").waitFor();
    expect(await urlField.inputValue()).to.equal(changedUrl);
    await world.clickButton("Save settings");
    await page.getByRole("heading", { name: changedUrl }).waitFor();
  });

  it("the partner page rotates a secret after a confirmation that Escape refuses", async () => {
    await world.clickButton("Rotate secret");
    await world.requireAccessible("a confirmation");
    await page.keyboard.press("Escape");
    expect(await page.getByRole("dialog").count()).to.equal(0);
    expect(await page.getByRole("textbox", { name: "Signing secret" }).count()).to.equal(0);
    await world.clickButton("Rotate secret");
    await world.confirm("Rotate secret");
    await page.getByText("Store this secret now.").waitFor();
    expect(await page.getByRole("textbox", { name: "Signing secret" }).inputValue()).to.match(/^whsec_/);
    await page.getByText(/^valid until /).waitFor();
  });

  it("the partner page disables and enables an endpoint, replays its skipped deliveries, and revokes it", async () => {
    await world.clickButton("Disable");
    await world.confirm("Disable");
    await page.getByText("Your application disabled it.").waitFor();
    expect(await page.getByRole("button", { name: "Send test event" }).count()).to.equal(0);
    await world.openTab("Appointments");
    await page.getByLabel("Branch", { exact: true }).selectOption("Riverside");
    skippedId = await world.createAppointment();
    await world.waitForSkippedDelivery();
    await world.openTab("Webhooks");
    await page.getByLabel("Status").selectOption("skipped");
    await page.getByLabel("Period").selectOption("last hour");
    await waitForDelivery("skipped");
    await world.clickButton("Enable");
    await page.getByText("The endpoint is active again.").waitFor();
    await world.clickButton("Replay skipped deliveries");
    await page.getByRole("dialog", { name: "Replay 1 delivery?" }).waitFor();
    const [{ since, ...selection }] = await Promise.all([waitForReplay(), world.confirm("Replay")]);
    expect(selection).to.deep.equal({ statuses: ["skipped"] });
    expect(Date.now() - Date.parse(since)).to.be.within(3_600_000, 3_900_000);
    await page.getByText("1 delivery was queued again.").waitFor();
    // Only a list that contains the pending delivery is loaded again automatically.
    await page.getByLabel("Status").selectOption("");
    const created = page.locator(".deliveries summary", { hasText: "appointment.created" });
    await created.filter({ hasText: "delivered" }).nth(1).waitFor();
    await world.clickButton("Revoke");
    await world.confirm("Revoke");
    await page.getByText("The endpoint is revoked.").waitFor();
    await page.getByText("Revoked (1)").waitFor();
    expect(await page.locator("#endpoint-body button, #endpoint-settings button").count()).to.equal(0);
  });

  it("the partner page asks before it cancels an appointment, and names the appointment", async () => {
    await world.openTab("Appointments");
    const row = page.getByRole("row", { name: skippedId });
    const status = page.locator("#appointments-status");
    for (const answer of ["Go back", "Cancel appointment"]) {
      await row.getByRole("button", { name: "Cancel appointment" }).click();
      const dialog = page.getByRole("dialog", { name: "Cancel appointment?" });
      expect(await dialog.innerText())
        .to.contain("Biscuit")
        .and.contain(skippedId);
      expect(await dialog.locator(".danger").innerText()).to.equal("Cancel appointment");
      expect(await status.innerText(), "before the answer").to.not.contain("cancelled");
      await world.confirm(answer);
    }
    await status.getByText(": cancelled, ").waitFor();
  });

  it("the partner page resets the sandbox", async () => {
    await world.openTab("Clinic");
    await page.locator("#sandbox-body", { hasText: /Appointments\s*10/ }).waitFor();
    await world.clickButton("Reset sandbox");
    await world.confirm("Reset sandbox");
    await page.getByText("The sandbox has the data of today again.").waitFor();
    expect(await page.locator("#sandbox-body").innerText()).to.match(/Appointments\s*7/);
  });

  it("after the sign-out and after the Back button, nothing of the session is left", async () => {
    const { clientSecret, applicationId } = world.partner;
    const appointmentId = randomUUID();
    const storageScript = "[sessionStorage.length, localStorage.length, document.cookie, location.href, history.state]";
    const pageUrl = `${world.origin}/partner`;
    const expectNoTrace = async () => {
      const text = await world.readAllText();
      expect(
        await page.locator("#endpoint-form [name=events]:not(:checked)").count(),
        "the former choice of events",
      ).to.equal(0);
      for (const trace of [
        appointmentId,
        clientSecret,
        applicationId,
        "Sandbox Clinic",
        "whsec_",
        "Biscuit",
        world.receiver.url,
      ])
        expect(text).to.not.contain(trace);
    };
    expect(await page.evaluate(storageScript)).to.eql([1, 0, "", page.url(), null]);
    await world.openTab("Webhooks");
    await page.getByLabel("Appointment id").fill(appointmentId);
    await world.clickButton("New endpoint");
    await page.locator("#endpoint-form [value='appointment.updated']").uncheck();
    await world.signOut();
    expect(await page.evaluate(storageScript)).to.eql([0, 0, "", pageUrl, null]);
    await expectNoTrace();
    await page.goto("about:blank");
    await page.goBack();
    await page.getByRole("heading", { name: "Sign in as an application" }).waitFor();
    await expectNoTrace();
    expect(world.urls.filter((url) => url.includes(clientSecret) || /eyJ|whsec/.test(url))).to.deep.equal([]);
    world.expectProblems(/nothing/);
  });
});
