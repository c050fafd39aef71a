import { expect } from "chai";
import { requireKeyboardAccess } from "../../../support/keyboard.ts";
import { createClinicWithHistory } from "../world.ts";
import { type AuditPage, startAuditPage } from "./audit-page.ts";

const PHONE_PX = 390;

describe("the keyboard on the page /audit", function () {
  this.timeout(180_000);
  let audit: AuditPage;
  let page: AuditPage["page"];

  before(async () => {
    audit = await startAuditPage();
    page = audit.page;
  });

  after(() => audit?.stop());

  it("the Tab key reaches everything on the sign-in form, and Enter signs in", async () => {
    await requireKeyboardAccess(page);
    await page.getByLabel("Auditor credential").fill(audit.auditor.credential);
    await page.keyboard.press("Enter");
    await page.getByText("the newest first").waitFor();
    expect(await audit.readFocusedId()).to.equal("name");
  });

  it("the arrow keys open each search, and the Tab key reaches all its fields", async () => {
    await page.getByRole("tab", { name: "Name", exact: true }).focus();
    for (const name of ["tab-appointment", "tab-actor", "tab-id", "tab-state", "tab-export", "tab-name"]) {
      await page.keyboard.press("ArrowRight");
      expect(await audit.readFocusedId()).to.equal(name);
      await requireKeyboardAccess(page);
      await page.locator(`#${name}`).focus();
    }
  });

  it("moving through the clinics with the arrow keys requests only the last one", async () => {
    const others = [await createClinicWithHistory(audit.world.log), await createClinicWithHistory(audit.world.log)];
    const clinicIds = [audit.history, ...others].map(({ clinicId }) => clinicId);
    const { credential } = await audit.world.registerAuditor(clinicIds);
    await audit.signOut();
    await audit.signIn(credential);
    await page.getByText("the newest first").waitFor();
    await page.locator("#clinic").focus();
    const requests = await audit.listRequests(() =>
      audit.awaitSearch(async () => {
        for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
      }),
    );
    const options = await page.locator("#clinic option").evaluateAll((all) => all.map((option) => option.value));
    const requestedIds = requests.map(({ searchParams }) => searchParams.get("clinic"));
    expect(requestedIds).to.deep.equal([options.at(-1)]);
    await audit.signOut();
    await page.goto(`${audit.world.url}/audit`);
    await audit.openDesk();
  });

  for (const width of [1440, PHONE_PX]) {
    it(`the Tab key reaches everything about an event and in each view, at ${width} pixels`, async () => {
      await audit.setWidth(width);
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
        const tabId = await audit.readFocusedId();
        await requireKeyboardAccess(page);
        await page.locator(`#${tabId}`).focus();
      }
    });
  }
});
