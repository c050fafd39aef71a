import { expect } from "chai";
import { requireKeyboardAccess } from "../../../support/keyboard.ts";
import { createClinicWithHistory } from "../world.ts";
import { type AuditPage, startAuditPage } from "./audit-page.ts";

const [PHONE_PX, DESKTOP_PX] = [390, 1440];

describe("the keyboard on the page /audit", function () {
  this.timeout(180_000);
  let audit: AuditPage;
  let page: AuditPage["page"];

  before(async () => {
    audit = await startAuditPage();
    page = audit.page;
  });

  after(() => audit?.stop());

  const getFocusedId = () => page.evaluate<string>("document.activeElement.id");

  it("the Tab key reaches everything on the sign-in form, and Enter signs in", async () => {
    await requireKeyboardAccess(page);
    await page.getByLabel("Auditor credential").fill(audit.auditor.credential);
    await page.keyboard.press("Enter");
    await page.getByText("the newest first").waitFor();
    expect(await getFocusedId()).to.equal("name");
  });

  it("the arrow keys open each search, and the Tab key reaches all its fields", async () => {
    await page.getByRole("tab", { name: "Name", exact: true }).focus();
    for (const name of ["tab-appointment", "tab-actor", "tab-id", "tab-state", "tab-export", "tab-name"]) {
      await page.keyboard.press("ArrowRight");
      expect(await getFocusedId()).to.equal(name);
      await requireKeyboardAccess(page);
      await page.locator(`#${name}`).focus();
    }
  });

  it("moving through the clinics with the arrow keys requests only the last one", async () => {
    const others = [await createClinicWithHistory(audit.world.log), await createClinicWithHistory(audit.world.log)];
    const clinicIds = [audit.history, ...others].map(({ clinicId }) => clinicId);
    const { credential } = await audit.world.registerAuditor(clinicIds);
    await page.getByRole("button", { name: "Sign out" }).click();
    await audit.signIn(credential);
    await page.getByText("the newest first").waitFor();
    const requestedIds: (string | null)[] = [];
    const onRequest = (request: { url(): string }) => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname.endsWith("/events")) requestedIds.push(searchParams.get("clinic"));
    };
    page.on("request", onRequest);
    await page.locator("#clinic").focus();
    const requestPromise = page.waitForRequest(/\/events\?/);
    for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
    await requestPromise;
    await page.locator("#status", { hasText: "the newest first" }).waitFor();
    page.off("request", onRequest);
    const options = await page.locator("#clinic option").evaluateAll((all) => all.map((option) => option.value));
    expect(requestedIds).to.deep.equal([options.at(-1)]);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.goto(`${audit.world.url}/audit`);
    await audit.openDesk();
  });

  for (const width of [DESKTOP_PX, PHONE_PX]) {
    it(`the Tab key reaches everything about an event and in each view, at ${width} pixels`, async () => {
      await page.setViewportSize({ width, height: 900 });
      await audit.search("appointment", audit.history.appointmentId);
      await page.getByRole("button", { name: "Appointment confirmed" }).focus();
      await page.keyboard.press("Enter");
      await page.getByRole("region", { name: "State" }).waitFor();
      // On a narrow screen, the focus moves to the event after its state is shown.
      if (width === PHONE_PX) await page.locator("#detail-title:focus").waitFor();
      await requireKeyboardAccess(page);
      await page.getByRole("tab", { name: "Timeline" }).focus();
      for (const content of ["#panel-causes .root", "#panel-deliveries article", "#accesses-body .summary"]) {
        await page.keyboard.press("ArrowRight");
        await page.locator(content).first().waitFor();
        const tabId = await getFocusedId();
        await requireKeyboardAccess(page);
        await page.locator(`#${tabId}`).focus();
      }
    });
  }
});
