import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";

/** A file of the page, ready to be sent. */
export interface PageFile {
  path: string;
  type: string;
  body: Buffer;
  /** Strong: of the bytes. */
  etag: string;
}

const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".css": "text/css",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
};

/** Beside this module. */
const folder = path.join(import.meta.dirname, "assets");

/** The page at /audit and everything that it loads, read once. */
export function readSite(): PageFile[] {
  return readdirSync(folder).map((name) => {
    const body = readFileSync(path.join(folder, name));
    const type = TYPES[path.extname(name)];
    if (type === undefined) throw new Error(`the page has no type for ${name}`);
    const etag = `"${createHash("sha256").update(body).digest("base64url")}"`;
    return { path: name === "index.html" ? "/audit" : `/audit/${name}`, type, body, etag };
  });
}
