import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { type Page, toPage } from "../../shared/http/pages.ts";

/** The renderer's files come from its npm package, so the lock file determines their version. */
const assetsFolder = path.join(import.meta.dirname, "assets");
const rendererFolder = path.dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));

const files = [
  { path: "/docs", type: "text/html", file: path.join(assetsFolder, "index.html") },
  { path: "/docs/docs.css", type: "text/css", file: path.join(assetsFolder, "docs.css") },
  { path: "/docs/docs.js", type: "text/javascript", file: path.join(assetsFolder, "docs.js") },
  { path: "/docs/icon.svg", type: "image/svg+xml", file: path.join(assetsFolder, "icon.svg") },
  { path: "/docs/swagger-ui.css", type: "text/css", file: path.join(rendererFolder, "swagger-ui.css") },
  {
    path: "/docs/swagger-ui-bundle.js",
    type: "text/javascript",
    file: path.join(rendererFolder, "swagger-ui-bundle.js"),
  },
];

/** Reads the page that renders the documents, and all files that it loads. */
export function readSite(): Page[] {
  return files.map(({ path, type, file }) => toPage(path, type, readFileSync(file)));
}
