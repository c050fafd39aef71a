import { expect } from "chai";
import pg from "pg";
import { insertDelivery } from "../../support/deliveries.ts";
import { eventually } from "../../support/eventually.ts";
import { type PartnerPage, startPartnerPage } from "./partner-page.ts";

describe("the endpoints and deliveries on the page /partner", function () {
  this.timeout(180_000);
  let world: PartnerPage;
  let page: PartnerPage["page"];
  let appointmentId = "";
  const endpointIds: string[] = [];

  const getEndpoint = (name: string) => page.getByRole("button", { name: `/${name} ` });
  const select = async (name: string) => {
    await getEndpoint(name).click();
    await page.getByText("Change settings").waitFor();
    await page.getByRole("heading", { name: `/${name} ` }).waitFor();
  };

  /** Waits until the API lists the delivery about the latest appointment. */
  const waitForDelivery = () =>
    eventually("the delivery", async () => {
      const path = `/webhook-endpoints/${endpointIds[0]}/deliveries?appointmentId=${appointmentId}`;
      return (await world.send("GET", path)).body.deliveries.length === 1;
    });

  before(async () => {
    world = await startPartnerPage();
    page = world.page;
    for (const name of ["created", "updated"])
      endpointIds.push(await world.createEndpoint(name, `appointment.${name}`));
    await world.signIn(world.partner);
    // The newest endpoint is shown first.
    await page.getByRole("heading", { name: "/updated" }).waitFor();
  });

  after(() => world?.stop());

  it("the deliveries of an appointment are found at all endpoints, with the keyboard, on a phone", async () => {
    await world.setWidth(390);
    await world.openTab("Appointments");
    appointmentId = await world.createAppointment();
    await waitForDelivery();
    await page.getByRole("row", { name: appointmentId }).getByRole("button", { name: "Deliveries" }).press("Enter");
    await page.getByText(`Appointment ${appointmentId.slice(0, 8)}: 1 delivery at 1 of 2 endpoints.`).waitFor();
    await page.getByRole("heading", { name: "/created" }).waitFor();
    await page.locator(`.deliveries summary [title="${appointmentId}"]`).waitFor();
    expect(await world.readFocusedId()).to.equal("deliveries-title");
    expect(await page.getByRole("button", { name: /1 delivery found/ }).innerText()).to.contain("/created");
    expect(await page.getByRole("button", { name: /0 deliveries found/ }).innerText()).to.contain("/updated");
    await world.requireAccessible("the search for an appointment");
    const hourAgo = new Date(Date.now() - 3_600_000).toISOString();
    await page.locator(".deliveries .age").evaluate((element, time) => element.setAttribute("datetime", time), hourAgo);
    await page.locator(".deliveries .age", { hasText: "1 h" }).waitFor();
  });

  it("on a phone, each appointment and each delivery shows all its values and its button", async () => {
    await world.setWidth(390);
    const attempts = page.locator(".deliveries summary span", { hasText: /attempts?$/ });
    const [age, count] = [await page.locator(".deliveries summary time").boundingBox(), await attempts.boundingBox()];
    expect(age!.y + age!.height, "the age is above the attempts").to.be.at.most(count!.y);
    await world.openTab("Appointments");
    const table = page.getByRole("region", { name: "Appointments", exact: true });
    const buttons = table.getByRole("button", { name: "Deliveries" });
    await buttons.first().waitFor();
    expect(await table.evaluate((region) => region.scrollWidth - region.clientWidth)).to.equal(0);
    // One call, because the page can draw the rows again between two.
    const cells = await table.locator("tbody :is(th, td):not(:empty)").evaluateAll((elements) =>
      elements.map((element) => {
        const { left, right, width } = element.getBoundingClientRect();
        return { isInside: left >= 0 && right <= 390, isShown: width > 0 };
      }),
    );
    expect(cells).to.not.be.empty;
    for (const cell of cells) expect(cell).to.deep.equal({ isInside: true, isShown: true });
    await world.requireAccessible("the appointments");
  });

  it("the search for an appointment leaves the endpoint whose settings the user is editing", async () => {
    await world.openTab("Webhooks");
    await page.getByRole("button", { name: "/updated" }).click();
    await world.clickButton("Clear filters");
    await page.getByText("Change settings").click();
    await page.getByRole("textbox", { name: "URL" }).fill("https://edited.example/");
    const filter = page.getByLabel("Appointment id");
    await filter.fill(appointmentId);
    await filter.press("Enter");
    await page.getByText("1 delivery at 1 of 2 endpoints.").waitFor();
    expect(await page.getByRole("textbox", { name: "URL" }).inputValue()).to.equal("https://edited.example/");
    await page.getByText("Change settings").click();
    await world.clickButton("Refresh");
    await page.getByRole("heading", { name: "/created" }).waitFor();
  });

  it("the health names the newest success, and promises retries only while a delivery is pending", async () => {
    const describeHealth = (failingSince: string | null, deliveries: object[]) =>
      page.evaluate<string>(`import("/partner/health.js").then(({ createHealthText }) =>
        createHealthText(...${JSON.stringify([{ status: "active", failingSince, failedAttempts: 2 }, deliveries])}).textContent)`);
    const newer = { status: "delivered", updatedAt: "2026-05-04T08:00:00.000Z" };
    const retried = { status: "delivered", updatedAt: "2026-05-04T09:00:00.000Z" };
    expect(await describeHealth(null, [newer, retried])).to.contain("was at 2026-05-04 09:00:00 UTC.");
    const failed = { status: "failed", updatedAt: "2026-05-04T08:00:00.000Z" };
    const promise = "The service retries pending deliveries.";
    expect(await describeHealth(failed.updatedAt, [failed]))
      .to.not.contain("retries the")
      .and.not.contain(promise);
    expect(await describeHealth(failed.updatedAt, [failed, { ...failed, status: "pending" }])).to.contain(promise);
  });

  it("an endpoint without a successful delivery is not green, and a replay counts more deliveries than a page", async () => {
    const { applicationId, environment } = world.partner;
    const admin = new pg.Pool({ connectionString: world.service.api.database.urls.projection });
    const clinicId = world.clinicHeaders["X-SERVICE-Clinic-ID"]!;
    const row = { endpointId: endpointIds[1]!, clinicId, branchId: null, applicationId, environment };
    const createdAt = new Date().toISOString();
    await Promise.all(Array.from({ length: 130 }, () => insertDelivery(admin, { ...row, createdAt })));
    await admin.end();
    await world.openTab("Webhooks");
    await page.getByRole("button", { name: /0 deliveries found/ }).press("Enter");
    await page.getByText("No delivery matches the filters.").waitFor();
    await page.getByRole("button", { name: "Clear filters" }).press("Enter");
    const health = page.getByText("Active, but no listed delivery was successful.");
    expect(await health.getAttribute("class")).to.equal("health failing");
    expect(await page.locator("#search-status").innerText()).to.equal("");
    await page.getByText("Last 24 hours: 0 delivered, 130 failed.").waitFor();
    await page.getByLabel("Status").selectOption("failed");
    await page.locator(".health.unknown").waitFor();
    await page.getByRole("button", { name: "Replay failed deliveries" }).press("Enter");
    await page.getByRole("dialog", { name: "Replay 130 deliveries?" }).waitFor();
    await world.requireAccessible("the number of deliveries");
    await page.keyboard.press("Escape");
    world.expectProblems(/nothing/);
  });

  it("a search that ends while a dialog or a secret is open does not show another endpoint", async () => {
    await world.openTab("Appointments");
    appointmentId = await world.createAppointment();
    await waitForDelivery();
    await world.openTab("Webhooks");
    await world.openTab("Appointments");
    expect(await page.getByText(/^Created appointment/).isVisible(), "The notice ends with the next action.").to.equal(
      false,
    );
    await world.openTab("Webhooks");
    const dialog = page.getByRole("dialog");
    await page.route("**/deliveries?*limit=100", async (route) => {
      await dialog.waitFor();
      await route.continue();
    });
    await page.getByLabel("Appointment id").fill(appointmentId);
    await page.keyboard.press("Enter");
    await world.clickButton("Rotate secret");
    const found = page.getByText("1 delivery at 1 of 2 endpoints.");
    await found.waitFor();
    expect(await page.locator("#endpoint-title").innerText()).to.contain("/updated");
    await page.unroute("**/deliveries?*limit=100");
    await world.confirm("Rotate secret");
    await page.getByText(/It belongs to .*\/updated\./).waitFor();
    const searched = page.waitForResponse("**/deliveries?*limit=100");
    await world.clickButton("Refresh");
    await (await searched).finished();
    await found.waitFor();
    expect(await page.getByText("Store this secret now.").isVisible()).to.equal(true);
    await world.clickButton("I have stored it");
    await world.clickButton("Refresh");
    await page.getByRole("heading", { name: "/created " }).waitFor();
    await world.signOut();
    await world.signIn(world.partner);
    await page.getByRole("heading", { name: "/updated" }).waitFor();
  });

  it("selecting the endpoint that is shown keeps its input and its new secret", async () => {
    let failures = 1;
    await page.route(/webhook-endpoints\/[0-9a-f-]+$/, (route) => {
      failures -= 1;
      return failures < 0 ? route.continue() : route.abort();
    });
    await page.getByRole("button", { name: "New endpoint" }).click();
    await page.getByRole("textbox", { name: "URL" }).fill(`${world.receiver.url}/new`);
    await page.keyboard.press("Enter");
    // The endpoint could not be loaded. The next selection loads it, and keeps the secret too.
    await page.getByText("The service is unreachable.").waitFor();
    await select("new");
    const secret = page.getByRole("textbox", { name: "Signing secret" });
    expect(await secret.inputValue()).to.match(/^whsec_/);
    await page.getByText("Change settings").click();
    await page.getByRole("textbox", { name: "URL" }).fill("https://edited.example/");
    for (const width of [1440, 390]) {
      await world.setWidth(width);
      await getEndpoint("new").click();
      expect(await secret.isVisible()).to.equal(true);
      expect(await page.getByRole("textbox", { name: "URL" }).inputValue()).to.equal("https://edited.example/");
    }
    expect(await world.readFocusedId(), "on a phone").to.equal("endpoint-title");
    await world.setWidth(1440);
    world.expectProblems(/ERR_FAILED/);
  });

  it("after a 410, the page offers no replay, and shows the endpoint as disabled as soon as it is", async () => {
    await select("created");
    const failed = page.locator(".deliveries summary", { hasText: "failed" });
    const replay = page.getByRole("button", { name: /^Replay/ });
    world.receiver.queueReactions({ status: 500 }, { status: 500 });
    await world.clickButton("Send test event");
    const notice = page.getByText("The test event was queued.");
    await notice.waitFor();
    await world.clickButton("Refresh");
    expect(await notice.count()).to.equal(0);
    await failed.waitFor();
    await page.getByRole("button", { name: "Replay failed deliveries" }).waitFor();
    // The endpoint is still active in the first responses.
    const id = await page.locator(".choice[aria-current]").getAttribute("data-id");
    const { body } = await world.send("GET", `/webhook-endpoints/${id}`);
    let isEnding = false;
    await page.route(`**/webhook-endpoints/${id}`, (route) =>
      isEnding ? route.continue() : route.fulfill({ json: body }),
    );
    world.receiver.queueReactions({ status: 410 });
    await world.clickButton("Send test event");
    await failed.filter({ hasText: "410" }).waitFor();
    await failed.last().press("Enter");
    await page.locator(".deliveries [open]", { hasText: "Enable the endpoint to replay" }).waitFor();
    expect(await replay.count()).to.equal(0);
    isEnding = true;
    await page.getByText("The receiver returned 410.").waitFor();
    expect(await replay.count()).to.equal(0);
    await world.clickButton("Enable");
    await page.getByRole("button", { name: "Replay failed deliveries" }).waitFor();
    await page.unrouteAll();
  });

  it("a dialog changes the endpoint that it names, also after the Back button has shown another endpoint", async () => {
    for (const [button, title] of [
      ["Rotate secret", "Rotate the signing secret?"],
      ["Disable", "Disable the endpoint?"],
      ["Revoke", "Revoke the endpoint for good?"],
    ] as const) {
      await select("created");
      await select("updated");
      // A revoked endpoint leaves the list.
      const updatedId = await getEndpoint("updated").getAttribute("data-id");
      await world.clickButton(button);
      await page.goBack();
      await page.getByRole("heading", { name: "/created " }).waitFor();
      const dialog = page.getByRole("dialog", { name: title });
      expect(await dialog.innerText(), button).to.contain("/updated");
      const [request] = await Promise.all([
        page.waitForRequest((sent) => ["POST", "DELETE"].includes(sent.method())),
        world.confirm(button),
      ]);
      expect(request.url(), button).to.contain(`/webhook-endpoints/${updatedId}`);
      if (button === "Rotate secret") await page.getByText(/It belongs to .*\/updated\./).waitFor();
    }
    await page.getByText("Revoked (1)").waitFor();
    expect(await getEndpoint("created").innerText()).to.contain("active");
    world.expectProblems(/nothing/);
  });
});
