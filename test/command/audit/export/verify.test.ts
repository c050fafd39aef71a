import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { LineTree } from "../../../../command/audit/export/line-tree.ts";
import { hashLeaf } from "../../../../command/audit/tree/merkle-tree.ts";
import { growTree } from "../tree/test-tree.ts";
import { createSigningKeys } from "../world.ts";
import { useExport } from "./export-world.ts";

describe("the verification of an export", () => {
  const { world, history, exported, verify } = useExport();

  const getThumbprint = async () => (await world.run(["keys", "--thumbprint"])).output.trim();

  it("an export can be verified with the thumbprint that the command `keys --thumbprint` prints", async () => {
    const args = ["verify", exported.file, "--key", await getThumbprint()];
    const { code, output: out } = await world.run(args, {});
    expect(code).to.equal(0);
    expect(out).to.contain("complete and unaltered");
    expect((await world.run([...args, "--json"], {})).code).to.equal(0);
  });

  it("the command `verify` refuses an invalid value of `--key`", async () => {
    for (const key of ["no key", path.join(world.folder, "nothing")]) {
      const { code, errorLines: err } = await world.run(["verify", exported.file, "--key", key], {});
      expect(code).to.equal(2);
      expect(err[0]).to.match(/^audit: --key must be/);
    }
  });

  it("the command `verify` reports a missing file as invalid input", async () => {
    const missingFile = path.join(world.folder, "nothing.ndjson");
    const { code, errorLines: err } = await world.run(["verify", missingFile, "--key", world.keyFile], {});
    expect(code).to.equal(2);
    expect(err[0]).to.contain(`${missingFile} cannot be read`);
  });

  it("the command `verify` refuses a line of more than 16 MiB as invalid input, with and without a line feed", async () => {
    const name = path.join(world.folder, "long-line.ndjson");
    const longestLine = Buffer.alloc(16 * 1024 * 1024, " ");
    for (const [text, code] of [
      ["\n", 2],
      [" ", 2],
      ["", 3],
    ] as const) {
      fs.writeFileSync(name, longestLine);
      fs.appendFileSync(name, text);
      const { code: actualCode, errorLines: err } = await world.run(["verify", name, "--key", world.keyFile], {});
      expect([actualCode, /a line is too long/.test(err.join())], err.join()).to.deep.equal([code, code === 2]);
    }
  });

  it("the command `verify` treats a thumbprint as a thumbprint, even if a file has the same name", async () => {
    const thumbprint = await getThumbprint();
    const otherKeys = await createSigningKeys();
    const otherEnv = { ...world.env, AUDIT_SIGNING_KEYS: otherKeys };
    const otherFile = path.join(world.folder, "other.ndjson");
    await world.run(["export", "--clinic", history.clinicId, "--out", otherFile], otherEnv);
    const otherExport = fs.readFileSync(otherFile, "utf8");
    const workingDirectory = process.cwd();
    process.chdir(world.folder);
    try {
      const { output: out } = await world.run(["keys"], otherEnv);
      fs.writeFileSync(thumbprint, out);
      expect((await verify(otherExport, `./${thumbprint}`)).ok, "with the key of the file").to.equal(true);
      expect((await verify(otherExport, thumbprint)).problem).to.contain("untrusted key");
    } finally {
      process.chdir(workingDirectory);
    }
  });

  describe("with an expected clinic and range", () => {
    const range = { from: "2020-01-01T00:00:00.000Z", to: "2026-06-01T00:00:00.000Z" };
    let clinicId: string;
    let file: string;
    /** Output of the command that wrote the file. */
    let exportOutput: string;

    before(async () => {
      clinicId = history.clinicId;
      file = path.join(world.folder, "ranged.ndjson");
      const options = ["--from", "2020-01-01T01:00:00+01:00", "--to", range.to, "--out", file];
      exportOutput = (await world.run(["export", "--clinic", clinicId, ...options])).output;
    });

    const verifyExport = async (name: string, ...options: string[]) => {
      const {
        code,
        errorLines: err,
        output: out,
      } = await world.run(["verify", name, "--key", world.keyFile, ...options], {});
      return { code, line: err.join("\n"), out };
    };

    it("the command `verify` that an export prints verifies the export", async () => {
      const args = /clinic audit (verify .*)/.exec(exportOutput)?.[1]?.split(" ") ?? [];
      const options = ["--clinic", clinicId, "--from", range.from, "--to", range.to];
      expect(args).to.include.members(options);
      expect((await world.run(args, {})).code).to.equal(0);
      expect((await verifyExport(exported.file, "--from", "start")).code, "an export from the start").to.equal(0);
    });

    it("an export is verified if the expected times use another UTC offset and the clinic id is in upper case", async () => {
      const timeOptions = ["--from", "2020-01-01T02:00:00+02:00", "--to", "2026-05-31T23:00:00-01:00"];
      expect((await verifyExport(file, "--clinic", clinicId.toUpperCase(), ...timeOptions)).code).to.equal(0);
    });

    it("verification with another clinic or range fails, and the message contains the expected and the actual value", async () => {
      const otherClinicId = randomUUID();
      const line = fs.readFileSync(file, "utf8").trimEnd().split("\n").length;
      const startProblem = `expected from start, but the manifest says ${range.from}`;
      const endProblem = `expected to 2026-05-01T00:00:00.000Z, but the manifest says ${range.to}`;
      const cases: [string[], string][] = [
        [["--clinic", otherClinicId], `expected clinic ${otherClinicId}, but the manifest says ${clinicId}`],
        [["--from", "start"], startProblem],
        [
          ["--from", "2020-01-01T00:00:00.001Z"],
          `expected from 2020-01-01T00:00:00.001Z, but the manifest says ${range.from}`,
        ],
        [["--to", "2026-05-01T00:00:00Z"], endProblem],
        [["--to", "2026-05-01T00:00:00Z", "--from", "start"], `${startProblem}; ${endProblem}`],
      ];
      for (const [options, difference] of cases) {
        const problem = `it is not the expected export: ${difference}`;
        const verifyResult = await verifyExport(file, ...options);
        expect([verifyResult.code, verifyResult.line]).to.deep.equal([
          3,
          `audit: ${file} is not verified: line ${line}: ${problem}`,
        ]);
        const verdict = JSON.parse((await verifyExport(file, ...options, "--json")).out);
        expect(verdict).to.deep.equal({ ok: false, line, fault: "unexpected_export", problem });
      }
      const startResult = await verifyExport(exported.file, "--from", range.from);
      expect(startResult.line).to.contain(`expected from ${range.from}, but the manifest says start`);
    });

    it("verification fails if the manifest was altered to match the expected clinic or range", async () => {
      const otherClinicId = randomUUID();
      const text = fs.readFileSync(file, "utf8");
      const manifestStart = text.trimEnd().lastIndexOf("\n") + 1;
      const alterations: [string, string, string[]][] = [
        [clinicId, otherClinicId, ["--clinic", otherClinicId]],
        [range.from, "2021-01-01T00:00:00.000Z", ["--from", "2021-01-01T00:00:00Z"]],
        [range.to, "2026-07-01T00:00:00.000Z", ["--to", "2026-07-01T00:00:00Z"]],
      ];
      for (const [originalText, replacement, options] of alterations) {
        const name = path.join(world.folder, `${randomUUID()}.ndjson`);
        const alteredManifest = text.slice(manifestStart).replaceAll(originalText, replacement);
        expect(alteredManifest).not.to.equal(text.slice(manifestStart));
        fs.writeFileSync(name, text.slice(0, manifestStart) + alteredManifest);
        const verifyResult = await verifyExport(name, ...options);
        expect(verifyResult.code).to.equal(3);
        expect(verifyResult.line).to.contain("the manifest differs from the signed manifest");
      }
    });

    it("the command `verify` refuses an invalid expected clinic, start or end", async () => {
      const verifyResult = await verifyExport(file, "--clinic", "x", "--from", "yesterday");
      expect([verifyResult.code, verifyResult.line]).to.deep.equal([
        2,
        "audit: --clinic must be a UUID; --from must be a date, a time such as 2026-11-28 10:00, or `start`",
      ]);
    });
  });
});

describe("the tree of an export", () => {
  const lines = Array.from({ length: 41 }, (_, index) => `{"line":${index + 1}}`);
  const growLines = (grownLines: string[], maxBlocks: number) => {
    const tree = new LineTree(maxBlocks);
    for (const line of grownLines) tree.add({ position: "1", id: "1" }, line);
    return tree;
  };

  it("a short export has a block for each line, a long one larger blocks, and both have the root of RFC 6962", async () => {
    for (let count = 0; count <= lines.length; count += 1) {
      const { edge } = await growTree(lines.slice(0, count).map((line) => hashLeaf(line)));
      for (const maxBlocks of [2, 4, 8, 64]) {
        const tree = growLines(lines.slice(0, count), maxBlocks);
        const { lines: width, roots } = tree.getBlocks();
        expect(roots.length)
          .to.equal(Math.ceil(count / width))
          .and.be.at.most(maxBlocks);
        expect(tree.computeRoot(), `${count} lines, ${maxBlocks} blocks`).to.deep.equal(edge.computeRoot());
      }
    }
    expect(growLines(lines, 64).getBlocks().lines).to.equal(1);
    expect(growLines(lines, 6).getBlocks().lines).to.equal(8);
  });
});
