import path from "node:path";
import type Router from "@koa/router";
import { deliveredEventTypes, operationalEventType, webhookEventType } from "../../shared/domain/events/partner.ts";
import { createRouter } from "../../shared/http/router.ts";
import { PAGE_HEADERS, type Page, readSite, servePages, toPage } from "../../shared/page/site.ts";

const PAGE_PATH = "/partner";

const toLines = (types: readonly string[], toLine: (type: string) => string) => types.map(toLine).join("\n");

/** Texts that replace placeholders of the page. */
const replacements: Record<string, string> = {
  eventTypes: JSON.stringify({
    events: webhookEventType.options,
    operationalEvents: operationalEventType.options,
  }).replaceAll('"', "&quot;"),
  eventChoices: toLines(
    webhookEventType.options,
    (type) => `<label><input type="checkbox" name="events" value="${type}" checked /> ${type}</label>`,
  ),
  eventOptions: toLines(deliveredEventTypes.clinic, (type) => `<option>${type}</option>`),
};

/**
 * Serves the page for partners at GET /partner. The page itself contains no data. In the browser, it is a client of the
 * partner API: it exchanges the application's credentials for a token and sends requests with this token.
 *
 * @param brand brand in header names, as in `X-<brand>-Clinic-ID`
 */
export function createPartnerPageRouter(brand: string): Router {
  const router = createRouter();
  servePages(router, readPartnerSite(brand), PAGE_HEADERS, "partner.page");
  return router;
}

export function readPartnerSite(brand: string): Page[] {
  return readSite(PAGE_PATH, path.join(import.meta.dirname, "assets")).map((page) => {
    if (page.path !== PAGE_PATH) return page;
    const texts = { ...replacements, brand };
    const html = page.body
      .toString("utf8")
      .replaceAll(/\{\{(\w+)\}\}/g, (placeholder, name) => texts[name as "brand"] ?? placeholder);
    return toPage(page.path, page.type, Buffer.from(html));
  });
}
