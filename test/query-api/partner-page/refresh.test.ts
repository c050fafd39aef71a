import { expect } from "chai";
import { eventually } from "../../support/eventually.ts";
import { type PartnerPage, startPartnerPage } from "./partner-page.ts";

const REFRESH_MS = 15_000;

describe("the automatic refresh of the page /partner", function () {
  this.timeout(180_000);
  let world: PartnerPage;
  let page: PartnerPage["page"];
  let endpointId = "";

  /** Sends a test event with the API, and waits until the API lists its outcome. */
  const sendTest = async () => {
    const { delivery } = (await world.send("POST", `/webhook-endpoints/${endpointId}/test`)).body;
    await eventually("the delivery", async () => {
      const path = `/webhook-endpoints/${endpointId}/deliveries`;
      const headers = world.clinicHeaders;
      const { body } = await world.partner.request("GET", `${path}/${delivery.id}`, { headers });
      return body.delivery?.status === "delivered";
    });
  };
  /** Advances the page's clock by seconds until the condition holds. Returns the number of seconds. */
  const passTime = async (label: string, condition: () => boolean | Promise<boolean>) => {
    let seconds = 0;
    await eventually(label, async () => {
      if (await condition()) return true;
      await page.clock.fastForward(1_000);
      seconds += 1;
      return false;
    });
    return seconds;
  };
  const passMinute = async () => {
    for (let seconds = 0; seconds < 60; seconds += 1) await page.clock.fastForward(1_000);
    await page.evaluate("fetch('/partner/main.js')"); // reported after all earlier requests
  };
  const listRequests = () => world.urls.filter((url) => url.includes("/v1/")).map((url) => new URL(url).pathname);
  const setHidden = (isHidden: boolean) =>
    page.evaluate(`
      Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"))`);
  const delivered = () => page.locator(".deliveries summary", { hasText: "delivered" });

  before(async () => {
    world = await startPartnerPage();
    page = world.page;
    await page.clock.install();
    await page.reload();
    endpointId = await world.createEndpoint("quiet", "appointment.created");
    await world.signIn(world.partner);
    await page.getByText("No deliveries in the last 30 days.").waitFor();
    await page.clock.pauseAt(Date.now() + REFRESH_MS);
  });

  after(() => world?.stop());

  it("a list without changes is requested at most four times per minute, and nothing else", async () => {
    const { length } = listRequests();
    const seconds = await passTime("five requests", () => listRequests().length >= length + 5);
    expect(seconds).to.be.at.least((4 * REFRESH_MS) / 1_000);
    const path = `/sandbox/v1/webhook-endpoints/${endpointId}/deliveries`;
    expect([...new Set(listRequests().slice(length))]).to.deep.equal([path]);
  });

  it("a new delivery appears without a click, and the input and the focus stay", async () => {
    await sendTest();
    const field = page.getByLabel("Appointment id");
    await field.pressSequentially("abc");
    await passTime("the delivery", async () => (await delivered().count()) === 1);
    await page.getByText("Working. The latest successful delivery was at").waitFor();
    expect(await field.evaluate((element) => element.matches(":focus"))).to.equal(true);
    expect(await field.inputValue()).to.equal("abc");
    await field.fill("");
    await delivered().press("Enter");
    const body = page.getByRole("region", { name: /^Body of/ });
    await body.waitFor();
    await sendTest();
    await passTime("the next delivery", async () => (await delivered().count()) === 2);
    expect(await body.isVisible()).to.equal(true);
  });

  it("nothing is requested while the page is hidden or a dialog is open, and the list follows afterwards", async () => {
    await setHidden(true);
    await sendTest();
    const { length } = listRequests();
    await passMinute();
    expect(listRequests().slice(length)).to.deep.equal([]);
    await setHidden(false);
    await delivered().nth(2).waitFor();
    await world.openTab("Requests");
    const requests = page.locator(".request", { hasText: "/deliveries" });
    expect(await requests.count(), "without automatic requests").to.equal(2);
    const { length: lengthOfTab } = listRequests();
    await passMinute();
    expect(listRequests().slice(lengthOfTab), "on another tab").to.deep.equal([]);
    await world.openTab("Webhooks");
    await world.clickButton("Revoke");
    await sendTest();
    const { length: lengthOfDialog } = listRequests();
    await passMinute();
    expect(listRequests().slice(lengthOfDialog), "under a dialog").to.deep.equal([]);
    await world.clickButton("Go back");
    await passTime("the fourth delivery", async () => (await delivered().count()) === 4);
    world.expectProblems(/nothing/);
  });

  it("the page says that the list cannot be refreshed, until it can", async () => {
    await page.route("**/deliveries?*", (route) => route.abort());
    const alert = page.locator("#refresh-alert");
    await passTime("the alert", async () => (await alert.innerText()).includes("The service is unreachable."));
    expect(await delivered().count()).to.equal(4);
    await page.unroute("**/deliveries?*");
    await passTime("no alert", async () => (await alert.innerText()) === "");
    world.expectProblems(/ERR_FAILED/);
  });

  it("if more deliveries are new than a page has, the list begins again, without a gap", async () => {
    let newest = 30;
    const toId = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
    await page.route("**/deliveries?*", (route) => {
      const first = Number(new URL(route.request().url()).searchParams.get("cursor") ?? newest);
      const time = new Date().toISOString();
      const deliveries = Array.from({ length: Math.min(first, 20) }, (_, index) => ({
        ...{ id: toId(first - index), eventId: toId(first - index), type: "endpoint.test", appointmentId: null },
        ...{ status: "delivered", nextAttemptAt: null, createdAt: time, updatedAt: time, attempts: [] },
      }));
      const nextCursor = first > 20 ? String(first - 20) : null;
      return route.fulfill({ json: { ok: true, deliveries, page: { limit: 20, nextCursor } } });
    });
    const rows = page.locator(".deliveries summary");
    await passTime("the first page", async () => (await rows.count()) === 20);
    await world.clickButton("Show more");
    await eventually("the second page", async () => (await rows.count()) === 30);
    newest = 70;
    await passTime("the new deliveries", async () => (await rows.count()) !== 30);
    expect(await rows.count()).to.equal(20);
    await page.unroute("**/deliveries?*");
    await passTime("the real deliveries", async () => (await rows.count()) === 4);
  });

  it("Refresh loads status, chart and settings again, even if the filters hide the new delivery", async () => {
    await page.getByLabel("Status").selectOption("skipped");
    await page.getByText("No delivery matches the filters.").waitFor();
    await page.getByText("Last 24 hours: 4 delivered, 0 failed.").waitFor();
    await sendTest();
    const path = `/webhook-endpoints/${endpointId}`;
    await world.send("PATCH", path, { body: { rateLimitPerSecond: 7 } });
    await world.send("POST", `${path}/disable`);
    await eventually("the change", async () => (await world.send("GET", path)).body.endpoint.status === "disabled");
    await world.clickButton("Refresh");
    await page.getByText("Your application disabled it.").waitFor();
    await page.getByText("Last 24 hours: 5 delivered, 0 failed.").waitFor();
    await page.locator("#endpoint-settings", { hasText: "7 attempts per second" }).waitFor();
    expect(await page.locator("#setting-rate").inputValue()).to.equal("7");
  });
});
