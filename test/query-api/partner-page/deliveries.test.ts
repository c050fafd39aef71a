import { expect } from "chai";
import pg from "pg";
import { insertDelivery } from "../../support/deliveries.ts";
import { eventually } from "../../support/eventually.ts";
import { type PartnerPage, startPartnerPage } from "./partner-page.ts";

describe("the deliveries on the page /partner", function () {
  this.timeout(180_000);
  let world: PartnerPage;
  let page: PartnerPage["page"];
  let appointmentId = "";
  let clinicHeaders: Record<string, string>;
  const endpointIds: string[] = [];

  const send = async (path: string, body: object) => {
    const response = await world.partner.request("POST", path, { headers: clinicHeaders, body });
    expect(response.status, path).to.be.oneOf([201, 202]);
    return response.body;
  };

  before(async () => {
    world = await startPartnerPage();
    page = world.page;
    const { body } = await world.partner.request("GET", "/sandbox");
    clinicHeaders = { "X-SERVICE-Clinic-ID": body.sandbox.clinicId };
    for (const name of ["created", "updated"]) {
      const request = { url: `${world.receiver.url}/${name}`, events: [`appointment.${name}`] };
      endpointIds.push((await send("/webhook-endpoints", request)).endpoint.id);
    }
    await world.signIn(world.partner);
    // The newest endpoint is shown first.
    await page.getByRole("heading", { name: "/updated" }).waitFor();
  });

  after(() => world?.stop());

  it("the deliveries of an appointment are found at all endpoints, with the keyboard, on a phone", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await world.openTab("Appointments");
    await world.clickButton("Create appointment");
    const created = page.getByText(/^Created appointment/);
    await created.waitFor();
    [appointmentId = ""] = (await created.innerText()).match(/[0-9a-f-]{36}/) ?? [];
    await eventually("the delivery", async () => {
      const path = `/webhook-endpoints/${endpointIds[0]}/deliveries?appointmentId=${appointmentId}`;
      const { body } = await world.partner.request("GET", path, { headers: clinicHeaders });
      return body.deliveries.length === 1;
    });
    await page.getByRole("row", { name: appointmentId }).getByRole("button", { name: "Deliveries" }).press("Enter");
    await page.getByText(`Appointment ${appointmentId.slice(0, 8)}: 1 delivery at 1 of 2 endpoints.`).waitFor();
    await page.getByRole("heading", { name: "/created" }).waitFor();
    await page.locator(`.deliveries summary [title="${appointmentId}"]`).waitFor();
    expect(await page.evaluate("document.activeElement.id")).to.equal("deliveries-title");
    expect(await page.getByRole("button", { name: /1 delivery found/ }).innerText()).to.contain("/created");
    expect(await page.getByRole("button", { name: /0 deliveries found/ }).innerText()).to.contain("/updated");
    await world.requireAccessible("the search for an appointment");
    const hourAgo = new Date(Date.now() - 3_600_000).toISOString();
    await page.locator(".deliveries .age").evaluate((element, time) => element.setAttribute("datetime", time), hourAgo);
    await page.locator(".deliveries .age", { hasText: "1 h" }).waitFor();
  });

  it("on a phone, each appointment and each delivery shows all its values and its button", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
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
    expect(await describeHealth(null, [newer, retried])).to.contain("delivery was at 2026-05-04 09:00:00 UTC.");
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
    const clinicId = clinicHeaders["X-SERVICE-Clinic-ID"]!;
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
});
