import fs from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { runAuditCommand } from "../cli-terminal.ts";
import { buildKeyFiles } from "../export/vectors.ts";
import { buildProofFiles, type ProofVector } from "./vectors.ts";

const folder = new URL("./vectors/", import.meta.url);
const readVectorFile = (file: string) => fs.readFileSync(new URL(file, folder));
const listedVectors: ProofVector[] = JSON.parse(readVectorFile("vectors.json").toString());
const toPath = (file: string) => fileURLToPath(new URL(file, folder));

describe("the format of tree heads and proofs", () => {
  it("the code writes the genuine test vectors byte by byte, and each file is a vector", async () => {
    const genuineFiles = await buildProofFiles();
    const keyFiles = await buildKeyFiles();
    const others = [...Object.keys(keyFiles), "rfc6962.json", "vectors.json"];
    expect(fs.readdirSync(folder)).to.have.members([...listedVectors.map(({ file }) => file), ...others]);
    const files = { ...genuineFiles, ...keyFiles };
    for (const [file, content] of Object.entries(files))
      expect(readVectorFile(file).equals(Buffer.from(content)), file).to.equal(true);
  });

  for (const { file, keys, heads, description, fault } of listedVectors) {
    const result = fault === null ? "verifies" : `reports ${fault} for`;
    it(`the command \`verify-proof\` ${result} ${file}: ${description}`, async () => {
      const headArgs = heads.length > 0 ? ["--head", ...heads.map(toPath)] : [];
      const args = ["verify-proof", toPath(file), "--key", toPath(keys), "--json", ...headArgs];
      const { code, output, errorLines } = await runAuditCommand(args);
      expect(code, errorLines.join()).to.equal(fault === null ? 0 : 3);
      expect(JSON.parse(output)).to.include(fault === null ? { ok: true } : { ok: false, fault });
    });
  }
});
