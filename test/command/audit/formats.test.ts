import fs from "node:fs";
import { expect } from "chai";
import { runAuditCommand } from "./cli-terminal.ts";
import { buildKeyFiles, buildVectorFiles, exportVectors, type Vectors } from "./export/vectors.ts";
import { buildProofFiles, treeVectors } from "./tree/vectors.ts";

function describeFormat(
  name: string,
  command: string,
  { folder, vectors }: Vectors,
  buildFiles: () => Promise<Record<string, string>>,
  otherFiles: string[],
): void {
  describe(`the format of ${name}`, () => {
    it("the code writes the genuine test vectors byte by byte, and each file is a vector", async () => {
      const keyFiles = await buildKeyFiles();
      const otherNames = [...Object.keys(keyFiles), "vectors.json", ...otherFiles];
      expect(fs.readdirSync(folder)).to.have.members([...new Set(vectors.map(({ file }) => file)), ...otherNames]);
      for (const [file, content] of Object.entries({ ...(await buildFiles()), ...keyFiles }))
        expect(fs.readFileSync(folder + file).equals(Buffer.from(content)), file).to.equal(true);
    });

    for (const { file, keys, heads = [], description, fault, line } of vectors) {
      const result = fault === null ? "verifies" : `reports ${fault} for`;
      it(`the command \`${command}\` ${result} ${file} with ${keys}: ${description}`, async () => {
        const headArgs = heads.length > 0 ? ["--head", ...heads.map((head) => folder + head)] : [];
        const args = [command, folder + file, "--key", folder + keys, "--json", ...headArgs];
        const { code, output, errorLines } = await runAuditCommand(args);
        expect(code, errorLines.join()).to.equal(fault === null ? 0 : 3);
        const expectedFault = line === undefined ? { fault } : { fault, line };
        expect(JSON.parse(output)).to.include(fault === null ? { ok: true } : { ok: false, ...expectedFault });
      });
    }
  });
}

describeFormat("audit exports", "verify", exportVectors, buildVectorFiles, []);
describeFormat("tree heads and proofs", "verify-proof", treeVectors, buildProofFiles, ["rfc6962.json"]);
