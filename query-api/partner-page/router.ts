import path from "node:path";
import type Router from "@koa/router";
import { createRouter } from "../../shared/http/router.ts";
import { PAGE_HEADERS, type Page, readSite, servePages, toPage } from "../../shared/page/site.ts";

const PAGE_PATH = "/partner";

const BRAND_PLACEHOLDER = "{{brand}}";

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
    const html = page.body.toString("utf8").replace(BRAND_PLACEHOLDER, brand);
    return toPage(page.path, page.type, Buffer.from(html));
  });
}
