/** `npm run pictures`: takes the screenshots in README.md from the running local stack. */
import path from "node:path";
import { getLocalPaths, getLocalRoot, PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";
import { readStackFile } from "../../deploy/local/stack/stack-file.ts";
import { startChromium } from "../support/chromium.ts";

const stack = readStackFile(getLocalPaths(getLocalRoot(process.env)).stack);
const application = stack?.demo.applications.find(({ environment }) => environment === "sandbox");
if (!stack || !application) throw new Error("No stack is running. Run npm start first.");
const { gateway } = stack.urls;
const browser = await startChromium();
try {
  const page = await browser.newPage({ viewport: { width: 1200, height: 720 }, reducedMotion: "reduce" });
  const take = (name: string) =>
    page.screenshot({ path: path.join(PROJECT_FOLDER, "docs", "pictures", `${name}.png`) });

  await page.goto(`${gateway}/docs`);
  await page.getByRole("heading", { name: "Quickstart" }).first().waitFor();
  await page.waitForLoadState("networkidle");
  await take("reference");

  await page.goto(`${gateway}/partner#tab=appointments`);
  await page.getByLabel("Client id").fill(application.clientId);
  await page.getByLabel("Client secret").fill(application.clientSecret);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Create appointment" }).click();
  await page.getByText(/^Created appointment/).waitFor();
  await page.getByRole("button", { name: "Confirm" }).first().click();
  await page.getByText("The clinic changed appointment").waitFor();
  await page.evaluate("scrollTo(0, 0)");
  await take("partner");

  await page.goto(`${gateway}/audit`);
  await page.getByLabel("Auditor credential").fill(stack.demo.auditor.credential);
  await page.keyboard.press("Enter");
  await page.getByText("the newest first").waitFor();
  await take("audit");
} finally {
  await browser.close();
}
