import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";
import type Router from "@koa/router";
import type Koa from "koa";
import { READ_METHODS } from "../http/router.ts";
import { limitAddressConcurrency } from "../rate-limit/middleware.ts";

export interface Page {
  path: string;
  type: string;
  body: Buffer;
  /** Hash of the body. The ETag is weak, because the plain and the compressed form of a page have the same ETag. */
  etag: string;
}

export function toPage(path: string, type: string, body: Buffer): Page {
  const etag = `W/"${createHash("sha256").update(body).digest("base64url")}"`;
  return { path, type, body, etag };
}

/**
 * Serves each page at its path with the given headers, without authentication. Compresses the page if the client
 * accepts gzip. Returns 304 if the client already has the current version. Redirects a trailing slash to the HTML page.
 *
 * @param operation name of these requests in metrics
 */
export function servePages(
  router: Pick<Router, "register">,
  pages: readonly Page[],
  headers: Readonly<Record<string, string>>,
  operation: string,
): void {
  const limitConcurrency = limitAddressConcurrency() as Koa.Middleware;
  for (const { path, type, body, etag } of pages) {
    // Compressing all pages would delay the start of the service.
    let compressedBody: Buffer | undefined;
    const sendPage: Koa.Middleware = (ctx) => {
      ctx.set({ ...headers, ETag: etag, Vary: "Accept-Encoding" });
      ctx.type = type;
      ctx.status = 200;
      if (ctx.fresh) ctx.status = 304;
      else if (ctx.acceptsEncodings("gzip", "identity") === "gzip") {
        ctx.set("Content-Encoding", "gzip");
        compressedBody ??= gzipSync(body, { level: 9 });
        ctx.body = compressedBody;
      } else ctx.body = body;
    };
    router.register(path, READ_METHODS, [limitConcurrency, sendPage], { name: operation });
    if (type !== "text/html" || path === "/") continue;
    const redirect: Koa.Middleware = (ctx) => {
      ctx.status = 308;
      ctx.redirect(path);
    };
    router.register(`${path}/`, READ_METHODS, [limitConcurrency, redirect], { name: operation });
  }
}

/**
 * Headers that restrict a page to files of its own origin, and forbid inline scripts, evaluated scripts and framing.
 */
export const PAGE_HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-cache",
} as const;

const CONTENT_TYPES: Record<string, string> = {
  ".html": "text/html",
  ".css": "text/css",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
};

/** Modules, styles and icon that all pages share. */
const SHARED_ASSETS_FOLDER = path.join(import.meta.dirname, "assets");

/**
 * Reads the files of a page and the files that all pages share into memory. `index.html` is served at the page's path,
 * and all other files are served below this path. A module of the page can therefore import a shared module from `./`.
 *
 * @param pagePath path of the page, such as `/audit`
 */
export function readSite(pagePath: string, folder: string): Page[] {
  return [folder, SHARED_ASSETS_FOLDER].flatMap((assetsFolder) =>
    readdirSync(assetsFolder).map((name) => {
      const type = CONTENT_TYPES[path.extname(name)];
      if (type === undefined) throw new Error(`no content type is known for the page file ${name}`);
      const body = readFileSync(path.join(assetsFolder, name));
      return toPage(name === "index.html" ? pagePath : `${pagePath}/${name}`, type, body);
    }),
  );
}
