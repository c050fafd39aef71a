import fs from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { runAuditCommand } from "../cli-terminal.ts";
import { buildKeyFiles, buildVectorFiles, type Vector } from "./vectors.ts";

const folder = new URL("./vectors/", import.meta.url);
const readVectorFile = (file: string) => fs.readFileSync(new URL(file, folder));
const listedVectors: Vector[] = JSON.parse(readVectorFile("vectors.json").toString());

describe("the format of audit exports", () => {
  it("the code writes the genuine test vectors byte by byte, and each file is a vector", async () => {
    const genuineFiles = await buildVectorFiles();
    const keyFiles = await buildKeyFiles();
    expect(fs.readdirSync(folder)).to.have.members([
      ...new Set([...listedVectors.map(({ file }) => file), ...Object.keys(keyFiles), "vectors.json"]),
    ]);
    const files = { ...genuineFiles, ...keyFiles };
    for (const [file, content] of Object.entries(files))
      expect(readVectorFile(file).equals(Buffer.from(content)), file).to.equal(true);
  });

  for (const { file, keys, description, fault, line } of listedVectors) {
    const result = fault === null ? "verifies" : `reports ${fault} for`;
    it(`the command \`verify\` ${result} ${file} with ${keys}: ${description}`, async () => {
      const [path, keyPath] = [file, keys].map((name) => fileURLToPath(new URL(name, folder)));
      const { code, output, errorLines } = await runAuditCommand([
        "verify",
        path ?? "",
        "--key",
        keyPath ?? "",
        "--json",
      ]);
      expect(code, errorLines.join()).to.equal(fault === null ? 0 : 3);
      expect(JSON.parse(output)).to.include(fault === null ? { ok: true } : { ok: false, fault, line });
    });
  }
});
