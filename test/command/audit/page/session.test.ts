import { readFileSync } from "node:fs";
import { expect } from "chai";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { type AuditPage, startAuditPage } from "./audit-page.ts";

const readVector = (file: string) => readFileSync(new URL(`../export/vectors/${file}`, import.meta.url));

describe("the sign-in of the page /audit", function () {
  this.timeout(180_000);
  let audit: AuditPage;
  let page: AuditPage["page"];
  let history: AuditPage["history"];

  before(async () => {
    audit = await startAuditPage();
    ({ page, history } = audit);
  });

  after(() => audit?.stop());

  it("the audit page has a content security policy that forbids other origins and inline code", async () => {
    const { headers, status } = await fetch(`${audit.world.url}/audit`);
    const policy = headers.get("Content-Security-Policy") ?? "";
    expect([status, policy.includes("unsafe"), policy.startsWith("default-src 'none'")]).to.eql([200, false, true]);
    expect((await fetch(`${audit.world.url}/audit`, { method: "POST" })).status).to.equal(405);
    const response = await fetch(`${audit.world.url}/audit/`, { redirect: "manual" });
    expect([response.status, response.headers.get("Location")], "a trailing slash").to.deep.equal([308, "/audit"]);
    expect((await fetch(`${audit.world.url}/audit/../main.ts`)).status).to.equal(404);
  });

  it("the audit page verifies an export offline and without a session, and names the first wrong line", async () => {
    await page.context().setOffline(true);
    await page.getByText("Verify an export").click();
    await audit.requireAccessible("the verification");
    await page.getByLabel("Thumbprint of the key, or the key set").fill(readVector("keys.json").toString());
    for (const [name, result] of [
      ["history.ndjson", "is complete and unaltered: clinic"],
      ["event-changed.ndjson", "is not verified: line 3: the line was changed"],
      ["signed-by-other-key.ndjson", "is not verified: line 6: the signature was made by an untrusted key"],
    ] as const) {
      const file = { name, mimeType: "application/x-ndjson", buffer: readVector(name) };
      await page.getByLabel("Export; you can drop the file here").setInputFiles(file);
      await page.getByText(`${name} ${result}`).waitFor();
    }
    await page.context().setOffline(false);
  });

  it("an export that is dropped on the audit page is verified, also if the form is closed, and is not opened", async () => {
    await page.getByText("Verify an export").click();
    const drop = (name: string) =>
      page.evaluate<boolean[]>(`(() => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([${JSON.stringify(readVector(name).toString())}], "${name}"));
        const options = { dataTransfer, bubbles: true, cancelable: true };
        const target = document.querySelector("#verify-card summary");
        return ["dragover", "drop"].map((type) => target.dispatchEvent(new DragEvent(type, options)));
      })()`);
    for (const [name, result] of [
      ["history.ndjson", "is complete and unaltered: clinic"],
      ["event-changed.ndjson", "is not verified: line 3"],
    ] as const) {
      // The browser opens a file whose events have their default effect.
      expect(await drop(name)).to.deep.equal([false, false]);
      await page.getByText(`${name} ${result}`).waitFor();
    }
  });

  it("the audit page refuses an invalid credential and shows the reason", async () => {
    await audit.requireAccessible("signing in");
    await audit.signIn(`${audit.auditor.credential.slice(0, -1)}~`);
    await page.getByText("The credential is invalid").waitFor();
    expect(await audit.readFocusedId()).to.equal("credential");
    expect(await page.locator("#desk").isVisible()).to.equal(false);
    // The browser itself logs the 401 to the console.
    audit.expectProblems(/401/);
  });

  it("the audit page signs an auditor in and shows the clinic's latest events with names and time zones", async () => {
    await audit.signIn(audit.auditor.credential);
    await page.getByText("Ada Audit, 1 clinic").waitFor();
    await page.getByRole("heading", { name: "Latest events of Happy Paws" }).waitFor();
    expect(await audit.readFocusedId()).to.equal("name");
    expect(await page.locator("#clinic-hint").innerText()).to.contain("Europe/Istanbul");
    const latestEvent = page.locator("#panel-timeline .event").first();
    await latestEvent.getByText("2026-05-06 13:00 UTC+3").waitFor();
    await latestEvent.getByText("Pamuk").waitFor();
    expect(await latestEvent.innerText())
      .to.contain("Appointment cancelled")
      .and.contain("2026-05-04 11:20:00 UTC+3")
      .and.contain("2026-05-04 08:20:00.000 UTC");
    await audit.requireAccessible("the desk");
  });

  it("a sign-out hides all data of the audit page before the page is loaded again, and late responses store nothing", async () => {
    await page.evaluate(`addEventListener("pagehide", () => {
      sessionStorage.setItem("auditor-credential", ${JSON.stringify(audit.auditor.credential)});
      localStorage.setItem("isShown", document.querySelector("#desk").checkVisibility());
    })`);
    await audit.signOut();
    expect(await page.evaluate("[localStorage.getItem('isShown'), sessionStorage.length]")).to.deep.equal(["false", 0]);
    await page.evaluate("localStorage.clear()");
    await audit.openDesk();
  });

  it("the audit page shows that the service is unreachable, and tries again", async () => {
    await audit.search("appointment", history.appointmentId);
    await page.context().setOffline(true);
    await page.getByRole("link", { name: "Latest events" }).click();
    await page.getByText("The service is unreachable.").waitFor();
    await audit.requireAccessible("an error");
    await page.context().setOffline(false);
    await audit.clickButton("Try again");
    await page.getByText("the newest first").waitFor();
    expect(await page.locator("#alert").innerText()).to.equal("");
    audit.expectProblems(/ERR_INTERNET_DISCONNECTED/);
  });

  it("the audit page signs a revoked auditor out, removes all data, and continues the search after the next sign-in", async () => {
    await audit.search("appointment", history.appointmentId);
    await audit.auditor.revoke();
    await page.locator("#subject").press("Enter");
    const reason = "The credential is invalid, expired or revoked. Sign in again.";
    await page.locator("#sign-in-alert", { hasText: reason }).waitFor();
    expect(await audit.readFocusedId()).to.equal("credential");
    expect(await page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]")).to.eql([0, 0, ""]);
    expect(await audit.readTimeline()).to.deep.equal([]);
    expect(await page.locator("#desk").evaluate((desk) => desk.textContent)).not.to.match(/Yilmaz|Pamuk|Happy Paws/);
    const nextAuditor = await audit.world.registerAuditor([history.clinicId]);
    await audit.signIn(nextAuditor.credential);
    await page.getByRole("heading", { name: "Events of appointment Pamuk" }).waitFor();
    audit.expectProblems(/401/);
  });

  it("while the read models are unavailable, the audit page says so, and searches by id still work", async () => {
    await audit.database.admin.query(`REVOKE ALL ON ALL TABLES IN SCHEMA ${READ_MODEL_SCHEMA} FROM clinic_audit`);
    await page.goto("about:blank");
    await page.goto(`${audit.world.url}/audit`);
    await page.getByText("Names are unavailable at the moment. You can still search by id.").waitFor();
    await page.getByRole("heading", { name: `Latest events of ${history.clinicId}` }).waitFor();
    await audit.search("appointment", history.appointmentId);
    expect(await audit.readTimeline()).to.have.length(3);
    await audit.requireAccessible("unavailable names");
    audit.expectProblems(/503/);
  });
});
