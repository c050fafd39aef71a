/**
 * Writes the test vectors of tree heads and proofs again:
 * `node --import tsx test/command/audit/tree/write-vectors.ts`. The vectors of a released format must not change.
 */
import fs from "node:fs";
import { buildKeyFiles } from "../export/vectors.ts";
import { buildProofVectors } from "./vectors.ts";

const folder = new URL("./vectors/", import.meta.url);
const vectors = await buildProofVectors();
for (const { file, content } of vectors) fs.writeFileSync(new URL(file, folder), content);
for (const [file, content] of Object.entries(await buildKeyFiles())) fs.writeFileSync(new URL(file, folder), content);
const list = vectors.map(({ content: _, ...vector }) => vector);
fs.writeFileSync(new URL("vectors.json", folder), `${JSON.stringify(list, null, 2)}\n`);
