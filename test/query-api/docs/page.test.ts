import { expect } from "chai";
import type { Browser, Page } from "playwright-core";
import type { OpenApiDocument } from "../../../query-api/docs/openapi.ts";
import { type DocumentedService, startDocumentedService } from "../../docs/documented-service.ts";
import { findViolations } from "../../support/accessibility.ts";
import { startChromium } from "../../support/chromium.ts";
import { eventually } from "../../support/eventually.ts";
import { requireKeyboardAccess } from "../../support/keyboard.ts";
import { TOKEN_ISSUER } from "../../support/partner.ts";

const documentPaths = { partner: "/partner/v1/openapi.json", portal: "/api/v1/openapi.json" } as const;

const CREATION = "tag/appointments/POST/appointments";

/** Maximum number of bytes that the first view transfers. */
const MAX_FIRST_VIEW_BYTES = 1_000_000;

/** Time limit for a step on a busy machine. Milliseconds. */
const RENDERING_TIMEOUT_MS = 120_000;

/** Console messages to ignore. The browser warns about this header on pages without TLS. */
const EXPECTED_MESSAGE = /^The Cross-Origin-Opener-Policy header has been ignored|^@scalar\/api-reference@/;

describe("the page /docs", function () {
  this.timeout(300_000);
  let service: DocumentedService;
  let browser: Browser;
  /** Console messages, failed requests and requests to other origins. */
  const problems: string[] = [];
  let firstViewBytes = 0;
  const documents = {} as Record<keyof typeof documentPaths, OpenApiDocument>;

  before(async () => {
    service = await startDocumentedService();
    for (const [name, path] of Object.entries(documentPaths))
      documents[name as "partner"] = (await (await fetch(service.origin + path)).json()) as OpenApiDocument;
    // The page sends requests to the public origin of the partner API.
    browser = await startChromium({ [new URL(TOKEN_ISSUER).host]: service.origin });
  });

  after(async () => {
    await service?.stop();
  });

  /** Opens the page in a new window, and waits until Scalar has rendered the document. */
  async function openPage(fragment = "", options: Parameters<Browser["newPage"]>[0] = {}): Promise<Page> {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
    page.setDefaultTimeout(RENDERING_TIMEOUT_MS);
    page.on("console", (message) => {
      if (!EXPECTED_MESSAGE.test(message.text())) problems.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => problems.push(`thrown: ${error.message}`));
    page.on("requestfailed", (request) => problems.push(`failed: ${request.url()}`));
    page.on("request", (request) => {
      const { origin, protocol } = new URL(request.url());
      if (origin !== TOKEN_ISSUER && protocol !== "data:") problems.push(`left: ${request.url()}`);
    });
    page.on("response", async (response) => {
      firstViewBytes += Number(response.headers()["content-length"] ?? 0);
    });
    await page.goto(`${TOKEN_ISSUER}/docs${fragment}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    return page;
  }

  /** Opens the page at an operation of the partner API, and waits until it is rendered. */
  async function openOperation(id: string, options: Parameters<Browser["newPage"]>[0] = {}) {
    const page = await openPage(`#partner/${id}`, options);
    const operation = page.locator(`[id="partner/${id}"]`);
    await operation.getByRole("button", { name: "Test Request" }).waitFor();
    return { page, operation };
  }

  it("the first view of the page /docs has less than 1 MB, and shows the partner API", async () => {
    firstViewBytes = 0;
    const page = await openPage();
    await page.getByRole("heading", { name: "Quickstart", exact: true }).waitFor();
    await page.getByLabel("Client ID").waitFor();
    expect(await page.title()).to.equal("Clinic Service API reference");
    expect(await page.getByRole("heading", { level: 1 }).innerText()).to.equal("Partner API");
    expect(firstViewBytes).to.be.within(500_000, MAX_FIRST_VIEW_BYTES);
    await page.close();
  });

  it("the page / links to all pages of the service, which also have a trailing slash", async () => {
    const signpost = await browser.newPage();
    await signpost.goto(`${TOKEN_ISSUER}/`);
    const paths = await signpost.evaluate<string[]>("[...document.querySelectorAll('main a')].map((a) => a.pathname)");
    expect(paths).to.include.members(["/docs", "/partner", "/audit", "/health/ready"]);
    for (const path of paths.filter((name) => name !== "/audit" && name !== "/health/ready"))
      expect((await fetch(service.origin + path)).status, path).to.equal(200);
    for (const path of ["/docs", "/partner"]) {
      const { status, headers } = await fetch(`${service.origin}${path}/`, { redirect: "manual" });
      expect([status, headers.get("Location")]).to.deep.equal([308, path]);
    }
    expect(await signpost.locator("main").innerText()).to.match(/partner API 1\.\d+\.\d+/);
    expect(await findViolations(signpost)).to.deep.equal([]);
    await signpost.close();
  });

  it("the navigation of the page /docs lists all operations of both documents, and each event once", async () => {
    const page = await openPage();
    const listTitles = async () => {
      for (;;) {
        const group = page.getByRole("button", { name: /^Open Group - (?!Introduction|Models)/ }).first();
        if (!(await group.isVisible())) break;
        await group.click();
      }
      const texts = await page.locator("aside").getByRole("link").allInnerTexts();
      return texts.map((text) => text.split("\n")[0]);
    };
    const toSummaries = ({ paths, webhooks = {} }: OpenApiDocument) => [
      ...Object.values(paths).flatMap((item) => Object.values(item).map(({ summary }) => summary)),
      ...Object.values(webhooks).flatMap(({ post }) => (post && !post["x-scalar-ignore"] ? [post.summary] : [])),
    ];
    const titles = await listTitles();
    expect(titles).to.include.members(toSummaries(documents.partner));
    expect(titles.filter((title) => title === "An appointment was created")).to.have.length(1);
    await page.getByRole("button", { name: "Partner API" }).click();
    await page.getByRole("option", { name: "Portal read API" }).click();
    await page.getByRole("heading", { level: 1, name: "Portal read API" }).waitFor();
    expect(await listTitles()).to.include.members(toSummaries(documents.portal));
    await page.close();
  });

  it("an operation on the page /docs has examples in curl, JavaScript and Python, and false in its errors", async () => {
    const { page, operation } = await openOperation(CREATION);
    expect(await operation.locator("pre").first().innerText()).to.contain('curl -X POST "$API/appointments"');
    for (const [name, code] of [
      [/Fetch/, "fetch("],
      [/Requests/, "requests.post("],
    ] as const) {
      await operation
        .locator("button", { hasText: /curl|Fetch/ })
        .first()
        .click();
      await page.getByRole("option", { name }).first().click();
      await operation.locator("pre", { hasText: code }).waitFor();
    }
    await operation.getByRole("tab", { name: "409" }).click();
    const errorExample = operation.locator("pre", { hasText: "idempotency_conflict" });
    expect(JSON.parse(await errorExample.innerText())).to.include({
      ok: false,
      docUrl: "/docs#error-idempotency_conflict",
    });
    await page.close();
  });

  it("the page /docs exchanges credentials for a token, and sends requests to the sandbox", async () => {
    const { env, partner } = await service.createSandboxPartner();
    const page = await openPage();
    await page.getByLabel("Client ID").fill(env.CLIENT_ID ?? "");
    await page.getByLabel("Client Secret").fill(env.CLIENT_SECRET ?? "");
    await page.getByRole("button", { name: "Authorize" }).click();
    await page.getByLabel("Access Token").first().waitFor();
    await page.getByRole("button", { name: "Open Group - Sandbox" }).click();
    await page.getByRole("link", { name: /^Get sandbox state/ }).click();
    const operation = page.locator('[id="partner/tag/sandbox/GET/sandbox"]');
    await operation.getByRole("button", { name: "Test Request" }).click();
    const dialog = page.getByRole("dialog");
    const responsePromise = page.waitForResponse(`${TOKEN_ISSUER}/sandbox/v1/sandbox`);
    await dialog.getByRole("button", { name: /^Send/ }).first().click();
    expect((await responsePromise).status()).to.equal(200);
    const { body } = await partner.request("GET", "/sandbox");
    await dialog.getByText(body.sandbox.clinicId).first().waitFor();
    expect(await findViolations(page)).to.deep.equal([]);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    expect(await page.evaluate("document.activeElement.textContent")).to.contain("Test Request");
    await page.close();
  });

  for (const colorScheme of ["light", "dark"] as const)
    it(`the page /docs has no violations of accessibility rules in the ${colorScheme} scheme, in wide and narrow windows`, async () => {
      const { page, operation } = await openOperation(CREATION, { colorScheme });
      for (const width of [1440, 390]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await findViolations(page)).to.deep.equal([]);
      }
      await operation.getByRole("button", { name: "Test Request" }).click();
      await page.getByRole("dialog").getByRole("button", { name: /^Send/ }).first().waitFor();
      expect(await findViolations(page)).to.deep.equal([]);
      await page.close();
    });

  it("the search and the portal's document on the page /docs have no violations of accessibility rules", async () => {
    const page = await openPage("#portal");
    expect(await findViolations(page)).to.deep.equal([]);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill("queue");
    await page.getByRole("option").first().waitFor();
    expect(await findViolations(page)).to.deep.equal([]);
    await page.close();
  });

  it("the Tab key reaches everything on the page /docs, with a visible focus", async () => {
    for (const [width, colorScheme] of [
      [1280, "dark"],
      [390, "light"],
    ] as const) {
      const page = await openPage("", { viewport: { width, height: 900 }, colorScheme });
      // Parts that become visible are rendered later, and move those below.
      await page.getByText("/oauth/token").last().scrollIntoViewIfNeeded();
      await page.getByRole("button", { name: "Test Request" }).first().waitFor();
      await requireKeyboardAccess(page);
      await page.close();
    }
  });

  it("the page /docs fits a narrow window", async () => {
    const viewport = { width: 360, height: 800 };
    for (const page of [await openPage("#portal", { viewport }), (await openOperation(CREATION, { viewport })).page]) {
      expect(await page.evaluate("document.documentElement.scrollWidth")).to.equal(360);
      await page.close();
    }
  });

  it("the field docUrl of errors of both APIs leads to the row of the error", async () => {
    const paths = ["/sandbox/v1/clinic/context", "/api/v1/clinics", "/api/v1/nothing"];
    for (const path of paths) {
      const error = (await (await fetch(service.origin + path)).json()) as { error: string; docUrl: string };
      const page = await browser.newPage();
      await page.goto(TOKEN_ISSUER + error.docUrl);
      await eventually(`the focus on ${error.error}`, async () =>
        (await page.evaluate<string>("document.activeElement.innerText")).includes(`\t${error.error}\t`),
      );
      await page.close();
    }
  });

  it("each error code that an operation lists has a row that docUrl can name", () => {
    for (const { info, paths } of Object.values(documents)) {
      const operations = Object.values(paths).flatMap((item) => Object.values(item));
      const codes = operations.flatMap(({ responses }) =>
        Object.values(responses).flatMap(({ description }) => [...description.matchAll(/^- `(\w+)`/gm)]),
      );
      for (const [, code] of codes) expect(info.description).to.contain(`| \`${code}\` |`);
    }
  });

  it("the page /docs loads only files of the same origin, without console errors", () => {
    expect(problems).to.deep.equal([]);
  });

  it("the page /docs has a content security policy that permits inline styles, but no inline scripts", async () => {
    const { headers } = await fetch(`${service.origin}/docs`);
    const policy = headers.get("Content-Security-Policy") ?? "";
    expect(policy)
      .to.match(/^default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';/)
      .and.match(/connect-src 'self';.*frame-ancestors 'none'/)
      .and.not.match(/unsafe-eval|https?:|\*/);
    expect(headers.get("X-Content-Type-Options")).to.equal("nosniff");
  });
});
