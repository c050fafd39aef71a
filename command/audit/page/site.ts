import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { type Page, toPage } from "../../../shared/http/pages.ts";

const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".css": "text/css",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
};

/** Beside this module. */
const folder = path.join(import.meta.dirname, "assets");

/** The page at /audit and everything that it loads, read once. */
export function readSite(): Page[] {
  return readdirSync(folder).map((name) => {
    const body = readFileSync(path.join(folder, name));
    const type = TYPES[path.extname(name)];
    if (type === undefined) throw new Error(`the page has no type for ${name}`);
    return toPage(name === "index.html" ? "/audit" : `/audit/${name}`, type, body);
  });
}
