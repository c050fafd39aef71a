/**
 * Writes the test vectors and the example in docs/audit-format.md again:
 * `node --import tsx test/command/audit/export/write-vectors.ts`. The vectors of a released format must not change.
 */
import fs from "node:fs";
import { buildExample, FORMAT_PAGE, readFormatPage, replaceExample } from "./format-example.ts";
import { buildKeyFiles, buildVectors } from "./vectors.ts";

const folder = new URL("./vectors/", import.meta.url);
const vectors = await buildVectors();
const list = vectors.map(({ content: _, ...vector }) => vector);
fs.rmSync(folder, { recursive: true, force: true });
fs.mkdirSync(folder);
for (const { file, content } of vectors) fs.writeFileSync(new URL(file, folder), content);
for (const [file, content] of Object.entries(await buildKeyFiles())) fs.writeFileSync(new URL(file, folder), content);
fs.writeFileSync(new URL("vectors.json", folder), `${JSON.stringify(list, null, 2)}\n`);
fs.writeFileSync(FORMAT_PAGE, replaceExample(readFormatPage(), await buildExample()));
