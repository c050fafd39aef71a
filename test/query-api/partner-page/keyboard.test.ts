import { expect } from "chai";
import { requireKeyboardAccess } from "../../support/keyboard.ts";
import { type PartnerPage, startPartnerPage } from "./partner-page.ts";

describe("the keyboard on the page /partner", function () {
  this.timeout(180_000);
  let world: PartnerPage;
  let page: PartnerPage["page"];

  before(async () => {
    world = await startPartnerPage();
    page = world.page;
  });

  after(() => world?.stop());

  const getFocusedText = () =>
    page.evaluate<string>("document.activeElement === document.body ? '' : document.activeElement.innerText");
  /** Presses a button with the Enter key. Waits until the button is enabled, because an action disables it. */
  const press = (name: string) => page.getByRole("button", { name, exact: true, disabled: false }).press("Enter");
  /** Accepts the dialog with the keyboard. Initially, the button that refuses has the focus. */
  const accept = async (name: string) => {
    expect(await getFocusedText()).to.equal("Go back");
    await page.keyboard.press("Tab");
    expect(await getFocusedText()).to.equal(name);
    await page.keyboard.press("Enter");
  };

  it("the Tab key reaches everything on the sign-in form, and the page after the sign-in", async () => {
    await requireKeyboardAccess(page);
    const heading = page.getByRole("heading", { name: "Sandbox Clinic" });
    await page.route("**/clinic/context", async (route) => {
      await heading.waitFor();
      await route.continue();
    });
    await world.signIn(world.partner);
    await page.getByText("No endpoints at Sandbox Clinic yet.").waitFor();
    expect(await getFocusedText()).to.equal("Sandbox Clinic");
    await requireKeyboardAccess(page);
  });

  it("the focus follows a new endpoint, its secret, and each open part of its page", async () => {
    await page.getByRole("textbox", { name: "URL" }).fill(`${world.receiver.url}/hook`);
    await page.keyboard.press("Enter");
    await page.getByText("Store this secret now.").waitFor();
    // The page adds and replaces elements until everything is loaded.
    await page.locator(".choice[aria-current]").waitFor();
    await page.getByText("No deliveries in the last 30 days.").waitFor();
    await requireKeyboardAccess(page);
    await press("I have stored it");
    await press("Send test event");
    await page.getByText("Working. The latest successful delivery was at").waitFor();
    await page.locator(".deliveries summary").press("Enter");
    await page.getByRole("region", { name: /^Body of/ }).waitFor();
    await page.getByText("Change settings").press("Enter");
    await requireKeyboardAccess(page);
    for (const width of [390, 1440]) {
      await world.setWidth(width);
      await requireKeyboardAccess(page);
    }
  });

  it("Escape closes the form for a new endpoint and the dialog, and returns the focus to their buttons", async () => {
    await press("New endpoint");
    await page.keyboard.press("Escape");
    expect(await page.locator("#endpoint-form").isVisible()).to.equal(false);
    expect(await getFocusedText()).to.equal("New endpoint");
    await press("Rotate secret");
    await requireKeyboardAccess(page);
    await page.keyboard.press("Escape");
    expect(await getFocusedText()).to.equal("Rotate secret");
  });

  it("an accepted dialog never leaves the focus on nothing", async () => {
    await press("Rotate secret");
    await accept("Rotate secret");
    await page.getByText("Store this secret now.").waitFor();
    expect(await getFocusedText()).to.equal("Signing secret");
    await press("I have stored it");
    for (const [name, text] of [
      ["Disable", "Your application disabled it."],
      ["Revoke", "The endpoint is revoked."],
    ] as const) {
      await press(name);
      await accept(name);
      await page.getByText(text).waitFor();
      expect(await getFocusedText(), name).to.not.equal("");
    }
  });

  it("the arrow keys open each tab, and the Tab key reaches everything in it", async () => {
    await page.getByRole("tab", { name: "Webhooks" }).focus();
    for (const content of ["#appointments-body tr", "#installation-body dd", ".requests > li"]) {
      await page.keyboard.press("ArrowRight");
      await page.locator(content).first().waitFor();
      const tabId = await page.evaluate<string>("document.activeElement.id");
      await requireKeyboardAccess(page);
      await page.locator(`#${tabId}`).focus();
    }
  });
});
