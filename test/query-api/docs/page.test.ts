import { execFile } from "node:child_process";
import { promisify } from "node:util";
import axe from "axe-core";
import { expect } from "chai";
import type { Browser, Page } from "playwright-core";
import type { OpenApiDocument } from "../../../query-api/docs/openapi.ts";
import { startQueryApi } from "../../../query-api/start.ts";
import { findViolations } from "../../support/accessibility.ts";
import { startChromium } from "../../support/chromium.ts";
import { eventually } from "../../support/eventually.ts";
import { requireKeyboardAccess } from "../../support/keyboard.ts";
import { queryEnvironment } from "../../support/query-environment.ts";

const documentPaths = { portal: "/api/v1/openapi.json", partner: "/partner/v1/openapi.json" } as const;

/** Expression that lists the words which are on two lines. Blocks of code scroll instead. */
const FIND_BROKEN_WORDS = `(() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.checkVisibility() || node.parentElement.closest("pre")) continue;
    for (const { 0: word, index } of node.data.matchAll(/[a-zA-Z0-9]{2,}/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
      if (lines.size > 1) found.push(word + " of " + node.data.slice(0, 80) + " in " + node.parentElement.outerHTML.slice(0, 80));
    }
  }
  return [...new Set(found)];
})()`;

describe("the page /docs", function () {
  this.timeout(180_000);
  let service: Awaited<ReturnType<typeof startQueryApi>>;
  let browser: Browser;
  let page: Page;
  /** Console messages, failed requests and requests to other origins. */
  const problems: string[] = [];

  before(async () => {
    service = await startQueryApi(queryEnvironment);
    browser = await startChromium();
    page = await browser.newPage({
      viewport: { width: 1280, height: 900 },
      permissions: ["clipboard-read", "clipboard-write"],
    });
    page.on("console", (message) => problems.push(`console ${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => problems.push(`thrown: ${error.message}`));
    page.on("requestfailed", (request) => problems.push(`failed: ${request.url()}`));
    page.on("response", (response) => {
      if (response.status() >= 400) problems.push(`${response.status()}: ${response.url()}`);
    });
    page.on("request", (request) => {
      const { origin, protocol } = new URL(request.url());
      if (origin !== service.url && protocol !== "data:") problems.push(`left: ${request.url()}`);
    });
    await page.addInitScript(
      "addEventListener('securitypolicyviolation', (event) => console.error('violates', event.effectiveDirective))",
    );
    await page.goto(`${service.url}/docs#partner`);
  });

  after(async () => {
    await browser?.close();
    await service?.stop();
  });

  /** Locates an operation on the page. */
  const locateOperation = (surface: keyof typeof documentPaths, id: string) =>
    page.locator(`#${surface} .opblock[id$="-${id}"]`);

  /** Waits until an operation has the focus, and returns the control that opens it. */
  async function awaitFocus(surface: keyof typeof documentPaths, id: string) {
    const control = locateOperation(surface, id).locator(".opblock-summary-control:focus");
    await control.waitFor();
    return control;
  }

  async function openOperation(surface: keyof typeof documentPaths, id: string) {
    const operation = locateOperation(surface, id);
    await operation.locator(".opblock-summary-control").click();
    await operation.locator('.response[data-code="503"]').waitFor();
    return operation;
  }

  it("the page / links to all pages of the service", async () => {
    const signpost = await browser.newPage();
    await signpost.goto(`${service.url}/`);
    const paths = await signpost.evaluate<string[]>("[...document.querySelectorAll('main a')].map((a) => a.pathname)");
    expect(paths).to.include.members(["/docs", "/partner", "/audit", "/health/ready"]);
    for (const path of paths.filter((name) => name !== "/audit"))
      expect((await fetch(service.url + path)).status, path).to.be.oneOf([200, 503]);
    expect(await signpost.locator("main").innerText()).to.match(/partner API 1\.\d+\.\d+/);
    expect(await findViolations(signpost)).to.deep.equal([]);
    await signpost.close();
  });

  for (const [surface, url] of Object.entries(documentPaths)) {
    it(`the page /docs shows every operation of the ${surface} document`, async () => {
      const response = await fetch(service.url + url);
      const { info, paths, webhooks } = (await response.json()) as OpenApiDocument;
      await page.waitForSelector(`#${surface} .opblock`);
      expect(await page.locator(`#${surface} .info .title`).innerText()).to.contain(info.title);
      const documentedRoutes = Object.entries({ ...paths, ...webhooks }).flatMap(([path, pathItem]) =>
        Object.keys(pathItem).map((method) => `${method.toUpperCase()} ${path}`),
      );
      const summaries = await page.locator(`#${surface} .opblock-summary`).all();
      const routePromises = summaries.map(async (summary) => {
        const method = await summary.locator(".opblock-summary-method").innerText();
        const path = await summary.locator(".opblock-summary-path").innerText();
        return `${method} ${path.replaceAll("\u200b", "")}`;
      });
      expect(await Promise.all(routePromises)).to.have.members(documentedRoutes);
    });
  }

  it("URL fragments and links on the page /docs scroll a section to just below the header bar", async () => {
    const expectInView = (surface: keyof typeof documentPaths) =>
      eventually(`${surface} in view`, async () => {
        const topPx = (await page.locator(`#${surface}`).boundingBox())?.y ?? 0;
        return topPx >= 56 && topPx < 120;
      });
    await expectInView("partner");
    await page.getByRole("link", { name: "Portal read API", exact: true }).click();
    await expectInView("portal");
    await page.getByRole("link", { name: "Partner API", exact: true }).click();
    await expectInView("partner");
  });

  it("the page /docs shows parameters and responses of an operation, but no controls to send requests", async () => {
    const operation = await openOperation("partner", "createPartnerAppointment");
    const operationText = await operation.innerText();
    for (const text of ["Idempotency-Key", "appointments:write", "idempotency_conflict", "RateLimit-Reset"]) {
      expect(operationText).to.contain(text);
    }
    const controls = page.getByRole("button", { name: /^(try it out|execute|authorize)$/i });
    expect(await controls.count()).to.equal(0);
    expect(await operation.locator("input:visible, textarea:visible").count()).to.equal(0);
  });

  const checkAccessibility = async (context: string, options: axe.RunOptions = {}) => {
    if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(axe.source);
    // Elements that pass a rule are omitted, because collecting them takes time.
    const runOptions = JSON.stringify({ ...options, resultTypes: ["violations"] });
    const { violations } = await page.evaluate<axe.AxeResults>(`axe.run(${context}, ${runOptions})`);
    expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html} (${nodes.length})`)).to.deep.equal([]);
  };

  for (const colorScheme of ["dark", "light"] as const) {
    it(`the page /docs has no violations of accessibility rules in the ${colorScheme} scheme, in wide and narrow windows`, async () => {
      await page.emulateMedia({ colorScheme });
      // Only the operation of the test above is open, because the check takes time for each open operation.
      await locateOperation("partner", "createPartnerAppointment").getByRole("tab", { name: "Schema" }).first().click();
      for (const width of [1440, 390]) {
        await page.setViewportSize({ width, height: 900 });
        for (const query of ["", "409"]) {
          await page.locator("#query").fill(query);
          // The closed operations of a group have the same elements as the first one, and so have the responses.
          const copies = "['.opblock:not(.is-open):not(:first-child)', '.response ~ .response']";
          await checkAccessibility(query === "" ? `{ exclude: ${copies} }` : "'header, aside'");
        }
        await page.locator("#query").fill("");
      }
      await page.setViewportSize({ width: 1280, height: 900 });
    });
  }

  for (const colorScheme of ["dark", "light"] as const) {
    it(`the colors of the page /docs have enough contrast in the ${colorScheme} scheme, for each method`, async () => {
      await page.emulateMedia({ colorScheme });
      for (const id of [
        "getWebhookEndpoint",
        "updateWebhookEndpoint",
        "revokeWebhookEndpoint",
        "onAppointmentCreated",
      ]) {
        await page.goto(`${service.url}/docs#partner/${id}`);
        await awaitFocus("partner", id);
      }
      const ground = await page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
      expect(ground).to.equal(colorScheme === "dark" ? "rgb(23, 37, 39)" : "rgb(255, 255, 255)");
      const context =
        "{ include: ['header', 'aside', '.info', '#partner .is-open'], exclude: ['.response ~ .response'] }";
      await checkAccessibility(context, { runOnly: ["color-contrast"] });
    });
  }

  it("the Tab key reaches everything on the page /docs, with a visible focus in the dark scheme", async () => {
    await page.emulateMedia({ colorScheme: "dark" });
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      await requireKeyboardAccess(page, ".opblock-control-arrow");
    }
    await page.emulateMedia({ colorScheme: "light" });
  });

  it("the navigation of the page /docs links to every operation and event, and opens them", async () => {
    const links = await page
      .locator("#navigation a")
      .evaluateAll((elements) => elements.map((element) => (element as unknown as { hash: string }).hash));
    const fragmentLists = await Promise.all(
      Object.entries(documentPaths).map(async ([api, url]) => {
        const { info, paths, webhooks } = (await (await fetch(service.url + url)).json()) as OpenApiDocument;
        const guides = [...info.description.matchAll(/^## (.*)$/gm)].map(
          ([, title = ""]) => `#${api}/guide-${title.toLowerCase().replaceAll(" ", "-")}`,
        );
        const operations = Object.values({ ...paths, ...webhooks }).flatMap((item) =>
          Object.values(item).map(({ operationId }) => `#${api}/${operationId}`),
        );
        return [...guides, ...operations];
      }),
    );
    expect(links).to.have.members(fragmentLists.flat());
    for (const [name, fragment] of [
      ["GET Get the front-desk queue", "#portal/getQueue"],
      ["EVENT endpoint.failing", "#partner/onEndpointFailing"],
    ] as const) {
      await page.getByRole("link", { name, exact: true }).click();
      const [api, id] = fragment.slice(1).split("/") as [keyof typeof documentPaths, string];
      const control = await awaitFocus(api, id);
      expect(await control.getAttribute("aria-expanded")).to.equal("true");
      expect(await page.locator("#navigation a[aria-current]").innerText()).to.contain(name.split(" ").at(-1));
    }
  });

  it("the search of the page /docs finds operations by fields and error codes, with the keyboard only", async () => {
    await page.locator("#partner").focus();
    await page.keyboard.press("/");
    await page.keyboard.type("idempotency_conflict scheduledAt");
    const status = page.locator("#matches");
    expect(await status.innerText()).to.equal("1 match");
    expect(await page.locator("#navigation a:visible").allInnerTexts()).to.deep.equal([
      "POST\nCreate an appointment\nPartner API",
    ]);
    await page.keyboard.press("Enter");
    await awaitFocus("partner", "createPartnerAppointment");
    await page.keyboard.press("/");
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type("species no-such-field");
    expect(await status.innerText()).to.equal("0 matches");
    expect(await page.locator("#navigation a:visible").count()).to.equal(0);
    await page.keyboard.press("Escape");
    expect(await status.innerText()).to.equal("");
    expect(await page.locator("#navigation a:visible").count()).to.be.greaterThan(20);
  });

  it("the search of the page /docs lists guides and errors first, unless an operation has the searched title", async () => {
    const find = async (query: string) => {
      await page.locator("#query").fill(query);
      return (await page.locator("#navigation a:visible").allInnerTexts()).map((text) => text.split("\n")[1]);
    };
    for (const [query, firstTitle] of [
      ["limits", "Limits"],
      ["rate limit", "Limits"],
      ["signature", "Verify a signature"],
      ["create an appointment", "Quickstart"],
      ["idempotency_conflict", "409 idempotency_conflict"],
      ["rotate webhook signing secret", "Rotate webhook signing secret"],
      ["409 create appointment", "Create an appointment"],
      ["create appointment 409", "Create an appointment"],
      ["409 webhook disabled", "409 webhook_endpoint_disabled_by_operator"],
    ] as const) {
      expect((await find(query))[0], query).to.equal(firstTitle);
    }
    const titles = await find("409");
    const firstOperation = titles.findIndex((title) => !title?.startsWith("409 "));
    expect(titles.slice(0, firstOperation)).to.include("409 idempotency_conflict");
    expect(titles.slice(firstOperation))
      .to.satisfy((others: string[]) => others.every((title) => !title.startsWith("409 ")))
      .and.include("Create an appointment")
      .and.not.include("List appointments");
  });

  it("Enter in the search of the page /docs moves the focus to a guide or to the row of an error", async () => {
    for (const [query, part] of [
      ["signature", "guide-verify-a-signature"],
      ["idempotency_conflict", "error-idempotency_conflict"],
    ] as const) {
      await page.locator("#query").fill(query);
      await page.locator("#query").press("Enter");
      await page.locator(`[data-part="${part}"]:focus`).waitFor();
    }
    const row = page.locator('[data-part="error-idempotency_conflict"]');
    expect(await row.innerText()).to.match(/^409\s+idempotency_conflict\s+Use a new key/);
    await page.locator("#query").fill("");
  });

  it("each operation on the page /docs has a curl command, and hides the bodies of its errors at first", async () => {
    await page.goto(`${service.url}/docs#partner/createPartnerAppointment`);
    const curl = page.getByRole("region", { name: "curl command of createPartnerAppointment" });
    await curl.waitFor();
    expect(await curl.innerText())
      .to.match(/^IDEMPOTENCY_KEY=.*\nSCHEDULED_AT=.*\ncurl -X POST "\$API\/appointments" /)
      .and.contain('-H "Authorization: Bearer $TOKEN"')
      .and.contain('-H "X-SERVICE-Clinic-ID: $CLINIC_ID"')
      .and.contain('"animalId": "$ANIMAL_ID"');
    const operation = locateOperation("partner", "createPartnerAppointment");
    const copyButton = operation.getByRole("button", { name: "Copy curl" });
    await copyButton.click();
    await copyButton.locator("+ [role=status]", { hasText: "Copied." }).waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).to.equal(await curl.textContent());
    const errorBody = operation.locator('.response[data-code="409"] .model-example');
    expect(await errorBody.isVisible()).to.equal(false);
    await operation.getByRole("button", { name: "Bodies of errors" }).click();
    await errorBody.waitFor();
  });

  it("a URL opens a guide of the page /docs, whose buttons select the code if there is no clipboard", async () => {
    const otherPage = await browser.newPage();
    // As in a page without TLS
    await otherPage.addInitScript("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
    await otherPage.goto(`${service.url}/docs#partner/guide-quickstart`);
    await otherPage.locator('[data-part="guide-quickstart"]:focus').waitFor();
    await otherPage.getByRole("button", { name: "Copy", exact: true }).first().click();
    await otherPage.getByText("The browser does not permit copying. Press Ctrl+C.").waitFor();
    expect(await otherPage.evaluate("getSelection().toString()")).to.match(/^API=.*access_token .*\)\n*$/s);
    await otherPage.close();
  });

  it("the curl command of each operation on the page /docs has its credentials", async () => {
    const commands = await page.evaluate<[id: string, curl: string][]>(`(async () => {
      const { listEntries } = await import("/docs/entries.js");
      const lists = ${JSON.stringify(Object.entries(documentPaths))}.map(async ([api, url]) =>
        listEntries(api, await (await fetch(url)).json()));
      return (await Promise.all(lists)).flat().filter(({ curl }) => curl).map(({ id, curl }) => [id, curl]);
    })()`);
    const withoutCredentials = commands.filter(
      ([, curl]) => !/-H "(Authorization: Bearer \$TOKEN|Cookie: \S+=\$SESSION)"/.test(curl),
    );
    expect(withoutCredentials.map(([id]) => id)).to.deep.equal(["exchangeToken"]);
    expect(withoutCredentials[0]?.[1]).to.contain('"client_secret": "$CLIENT_SECRET"');
  });

  it("bash parses the curl command of each operation, and sends the body of the example", async () => {
    // A text with everything that a shell could expand
    const notes = 'it\'s \\ $(id) `id` "quoted" $HOME';
    const commands = await page.evaluate<[curl: string, bodies: string][]>(`(async () => {
      const { formatCurl } = await import("/docs/curl.js");
      const openApi = await (await fetch("${documentPaths.partner}")).json();
      return Object.entries(openApi.paths).flatMap(([path, item]) =>
        Object.entries(item).map(([method, operation]) => {
          const example = operation.requestBody?.content["application/json"]?.example;
          const hostile = example && { ...example, notes: ${JSON.stringify(notes)} };
          if (hostile) operation.requestBody.content["application/json"].example = hostile;
          return [formatCurl(openApi, { method, path, operation }), JSON.stringify(hostile ?? null)];
        }));
    })()`);
    const bodies = commands.filter(([, body]) => body !== "null");
    expect(bodies).to.have.length.greaterThan(5);
    // Functions take the place of curl, which prints the body, and of jq.
    const script = ["set -eu", "curl() { if [[ $* == *-d* ]]; then cat; fi; }", "jq() { echo value-of-jq; }"];
    const names = new Set(
      commands.flatMap(([curl]) => [...curl.matchAll(/\$([A-Z_]+)/g)].map(([, name = ""]) => name)),
    );
    for (const name of names) if (name !== "HOME") script.push(`${name}=value-of-${name}`);
    const { stdout } = await promisify(execFile)("bash", [
      "-c",
      [...script, ...commands.map(([curl]) => `${curl}\necho ---`)].join("\n"),
    ]);
    const sent = stdout.split("---\n").filter((text) => text.trim() !== "");
    expect(sent).to.have.length(bodies.length);
    for (const [index, [, body]] of bodies.entries()) {
      const [got, example] = [JSON.parse(sent[index]!), JSON.parse(body)];
      for (const [name, value] of Object.entries(example)) {
        if (value !== null && /(Ids?|_id|_secret|scheduledAt)$/.test(name))
          expect([got[name]].flat()[0]).to.match(/^value-of-/);
        else expect(got[name], name).to.deep.equal(value);
      }
    }
  });

  it("the page /docs opens the operation that the URL names, also if its group was closed", async () => {
    await page.goto(`${service.url}/docs#partner/rotateWebhookSecret`);
    const operation = locateOperation("partner", "rotateWebhookSecret");
    await operation.locator('.response[data-code="409"]').waitFor();
    await page.locator("#partner .opblock-tag", { hasText: "Webhook endpoints" }).click();
    await operation.waitFor({ state: "detached" });
    await page.getByRole("link", { name: "POST Rotate webhook signing secret", exact: true }).click();
    await operation.locator('.response[data-code="409"]').waitFor();
  });

  it("the page /docs has a title, a language, and links to the OpenAPI documents", async () => {
    expect(await page.title()).to.equal("Clinic Service API reference");
    expect(await page.locator("html").getAttribute("lang")).to.equal("en");
    const headings = await page.getByRole("heading", { level: 1 }).allInnerTexts();
    expect(headings.map((text) => text.split("\n")[0])).to.deep.equal(["Portal read API", "Partner API"]);
    expect(await page.locator("main").count()).to.equal(1);
    for (const link of await page.locator("header a[href^='/']").all()) {
      expect((await fetch(service.url + (await link.getAttribute("href")))).status).to.equal(200);
    }
  });

  it("the page /docs fits a narrow window, and breaks long names only after punctuation", async () => {
    await openOperation("portal", "listAppointments");
    await openOperation("partner", "createWebhookEndpoint");
    for (const query of ["409", ""]) {
      for (const width of [360, 1280]) {
        await page.setViewportSize({ width, height: 800 });
        await page.locator("#query").fill(query);
        expect(await page.evaluate("document.documentElement.scrollWidth")).to.equal(width);
        expect(await page.evaluate(FIND_BROKEN_WORDS), `${width} ${query}`).to.deep.equal([]);
      }
    }
    await page.setViewportSize({ width: 360, height: 800 });
  });

  it("the search of the page /docs stays in view in a narrow window, and opens matches with the keyboard", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(`${service.url}/docs#partner/revokeWebhookEndpoint`);
    await awaitFocus("partner", "revokeWebhookEndpoint");
    const search = page.locator("#query");
    const top = (await search.boundingBox())?.y ?? -1;
    expect(top).to.be.within(0, 100);
    await page.keyboard.press("/");
    expect(await page.locator("#query:focus").count()).to.equal(1);
    for (const query of ["rotate webhook signing secret", "limits", "rotate webhook signing secret"]) {
      await search.fill(query);
      await page.locator("#results a").first().waitFor();
      await page.keyboard.press("Enter");
      if (query === "limits") await page.locator('[data-part="guide-limits"]:focus').waitFor();
      else await awaitFocus("partner", "rotateWebhookSecret");
      expect(await page.locator("#contents[open]").count()).to.equal(0);
      const focused = await page.evaluate<{ top: number }>("document.activeElement.getBoundingClientRect().toJSON()");
      expect(focused.top).to.be.within(50, 400);
      await search.focus();
    }
  });

  it("the page /docs loads only files of the same origin, without console errors", () => {
    expect(problems).to.deep.equal([]);
  });

  it("the page /docs has a content security policy that blocks inline scripts", async () => {
    const { headers } = await fetch(`${service.url}/docs`);
    const policy = headers.get("Content-Security-Policy") ?? "";
    expect(policy)
      .to.match(/^default-src 'none';/)
      .and.match(/frame-ancestors 'none'/);
    expect(policy).to.not.match(/unsafe|https?:|\*/);
    expect(headers.get("X-Content-Type-Options")).to.equal("nosniff");
    const violationPromise = page.waitForEvent("console", (message) => message.text().startsWith("violates"));
    await page.evaluate(`{
      const script = document.createElement("script");
      script.textContent = "document.title = 'taken over'";
      document.body.append(script);
    }`);
    expect((await violationPromise).text()).to.equal("violates script-src-elem");
    expect(await page.title()).to.equal("Clinic Service API reference");
  });
});
