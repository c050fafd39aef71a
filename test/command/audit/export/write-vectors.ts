/**
 * Writes the files of all test vectors and the example in docs/audit-format.md again:
 * `node --import tsx test/command/audit/export/write-vectors.ts`. A new vector also needs an entry in `vectors.json`.
 * The vectors of a released format must not change.
 */
import fs from "node:fs";
import { buildProofFiles } from "../tree/vectors.ts";
import { buildExample, FORMAT_PAGE, readFormatPage, replaceExample } from "./format-example.ts";
import { buildKeyFiles, buildVectorFiles } from "./vectors.ts";

for (const [folder, vectorFiles] of [
  ["./vectors/", await buildVectorFiles()],
  ["../tree/vectors/", await buildProofFiles()],
] as const) {
  for (const [file, content] of Object.entries({ ...vectorFiles, ...(await buildKeyFiles()) }))
    fs.writeFileSync(new URL(folder + file, import.meta.url), content);
}
fs.writeFileSync(FORMAT_PAGE, replaceExample(readFormatPage(), await buildExample()));
