import { expect } from "chai";
import { eventually } from "../../support/eventually.ts";
import { type PartnerPage, startPartnerPage } from "./partner-page.ts";

describe("the selected endpoint on the page /partner", function () {
  this.timeout(180_000);
  let world: PartnerPage;
  let page: PartnerPage["page"];
  let clinicHeaders: Record<string, string>;

  const send = async (path: string, body: object) => {
    const response = await world.partner.request("POST", path, { headers: clinicHeaders, body });
    expect(response.status, path).to.be.oneOf([200, 201, 202]);
    return response.body;
  };
  const getEndpoint = (name: string) => page.getByRole("button", { name: `/${name} ` });
  const select = async (name: string) => {
    await getEndpoint(name).click();
    await page.getByText("Change settings").waitFor();
    await page.getByRole("heading", { name: `/${name} ` }).waitFor();
  };

  before(async () => {
    world = await startPartnerPage();
    page = world.page;
    const { body } = await world.partner.request("GET", "/sandbox");
    clinicHeaders = { "X-SERVICE-Clinic-ID": body.sandbox.clinicId };
    for (const [name, event] of [
      ["first", "created"],
      ["second", "updated"],
    ])
      await send("/webhook-endpoints", { url: `${world.receiver.url}/${name}`, events: [`appointment.${event}`] });
    await world.signIn(world.partner);
    await page.getByRole("heading", { name: "/second" }).waitFor();
  });

  after(() => world?.stop());

  it("a search that ends while a dialog or a secret is open does not show another endpoint", async () => {
    await world.openTab("Appointments");
    await world.clickButton("Create appointment");
    const created = page.getByText(/^Created appointment/);
    await created.waitFor();
    const [appointmentId = ""] = (await created.innerText()).match(/[0-9a-f-]{36}/) ?? [];
    await eventually("the delivery", () => world.receiver.requests.length > 0);
    await world.openTab("Webhooks");
    await world.openTab("Appointments");
    expect(await created.isVisible(), "The notice ends with the next action.").to.equal(false);
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
    expect(await page.locator("#endpoint-title").innerText()).to.contain("/second");
    await page.unroute("**/deliveries?*limit=100");
    await world.confirm("Rotate secret");
    await page.getByText(/It belongs to .*\/second\./).waitFor();
    const searched = page.waitForResponse("**/deliveries?*limit=100");
    await world.clickButton("Refresh");
    await (await searched).finished();
    await found.waitFor();
    expect(await page.getByText("Store this secret now.").isVisible()).to.equal(true);
    await world.clickButton("I have stored it");
    await world.clickButton("Refresh");
    await page.getByRole("heading", { name: "/first " }).waitFor();
    await world.clickButton("Sign out");
    await world.signIn(world.partner);
    await page.getByRole("heading", { name: "/second" }).waitFor();
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
      await page.setViewportSize({ width, height: 900 });
      await getEndpoint("new").click();
      expect(await secret.isVisible()).to.equal(true);
      expect(await page.getByRole("textbox", { name: "URL" }).inputValue()).to.equal("https://edited.example/");
    }
    expect(await page.evaluate("document.activeElement.id"), "on a phone").to.equal("endpoint-title");
    await page.setViewportSize({ width: 1440, height: 900 });
    world.expectProblems(/ERR_FAILED/);
  });

  it("after a 410, the page offers no replay, and shows the endpoint as disabled as soon as it is", async () => {
    await select("first");
    const failed = page.locator(".deliveries summary", { hasText: "failed" });
    const replay = page.getByRole("button", { name: /^Replay/ });
    world.receiver.queueReactions({ status: 500 }, { status: 500 });
    await world.clickButton("Send test event");
    const notice = page.getByText("The test event is queued.");
    await notice.waitFor();
    await world.clickButton("Refresh");
    expect(await notice.count()).to.equal(0);
    await failed.waitFor();
    await page.getByRole("button", { name: "Replay failed deliveries" }).waitFor();
    // The endpoint is still active in the first responses.
    const id = await page.locator(".choice[aria-current]").getAttribute("data-id");
    const { body } = await world.partner.request("GET", `/webhook-endpoints/${id}`, { headers: clinicHeaders });
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
      await select("first");
      await select("second");
      // A revoked endpoint leaves the list.
      const secondId = await getEndpoint("second").getAttribute("data-id");
      await world.clickButton(button);
      await page.goBack();
      await page.getByRole("heading", { name: "/first " }).waitFor();
      const dialog = page.getByRole("dialog", { name: title });
      expect(await dialog.innerText(), button).to.contain("/second");
      const [request] = await Promise.all([
        page.waitForRequest((sent) => ["POST", "DELETE"].includes(sent.method())),
        world.confirm(button),
      ]);
      expect(request.url(), button).to.contain(`/webhook-endpoints/${secondId}`);
      if (button === "Rotate secret") await page.getByText(/It belongs to .*\/second\./).waitFor();
    }
    await page.getByText("Revoked (1)").waitFor();
    expect(await getEndpoint("first").innerText()).to.contain("active");
    world.expectProblems(/nothing/);
  });
});
