import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { findOnPath } from "../../deploy/local/setup/system-package.ts";
import { startChromium } from "../support/chromium.ts";
import { partnerDocument } from "../support/partner-document.ts";
import { makeTestRoot } from "../support/stack.ts";
import { startDocumentedService } from "./documented-service.ts";
import { run, skip } from "./sample-programs.ts";

describe("the Quickstart of the API reference", function () {
  this.timeout(300_000);

  it("the blocks of the Quickstart and then the command of the operation, copied from the page /docs, create appointments", async function () {
    if (!["curl", "jq"].every(findOnPath)) return skip(this, "curl or jq");
    const service = await startDocumentedService();
    const browser = await startChromium();
    try {
      const { env } = await service.createSandboxPartner();
      const page = await browser.newPage({ permissions: ["clipboard-read", "clipboard-write"] });
      await page.goto(`${service.origin}/docs#partner/guide-quickstart`);
      const title = page.locator('[data-part="guide-quickstart"]');
      await title.locator("~ .code-box").first().waitFor();
      const buttons = await title.locator("~ .code-box").getByRole("button", { name: "Copy", exact: true }).all();
      expect(buttons).to.have.length(3);
      const blocks: string[] = [];
      for (const button of buttons) {
        await button.click();
        await button.locator("+ [role=status]", { hasText: "Copied." }).waitFor();
        blocks.push(await page.evaluate<string>("navigator.clipboard.readText()"));
      }
      await page.goto(`${service.origin}/docs#partner/createPartnerAppointment`);
      await page.getByRole("button", { name: "Copy curl" }).click();
      await page.locator(".opblock").getByText("Copied.").waitFor();
      blocks.push("\necho ,\n", await page.evaluate<string>("navigator.clipboard.readText()"));
      // The blocks contain the public origin, which no name server knows.
      const { hostname } = new URL(partnerDocument.servers[0]?.url ?? "");
      const CURL_HOME = path.join(makeTestRoot(), "curl");
      mkdirSync(CURL_HOME);
      writeFileSync(path.join(CURL_HOME, ".curlrc"), `connect-to = ${hostname}:80:${new URL(service.origin).host}\n`);
      const output = await run(["sh", "-euc", blocks.join("")], { ...env, API: "", CURL_HOME });
      const bodies = JSON.parse(`[${output}]`);
      expect(bodies).to.have.length(2);
      for (const body of bodies) expect(body).to.have.nested.property("appointment.status", "requested");
    } finally {
      await browser.close();
      await service.stop();
    }
  });
});
