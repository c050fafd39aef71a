import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { CompactSign, importJWK } from "jose";
import { CHAIN_SEED, computeNextLink } from "../../../../command/audit/export/chain.ts";
import { toCanonicalJson } from "../../../../command/audit/export/json.ts";
import { createSigningKeys } from "../world.ts";
import { type ExportWorld, startExportWorld } from "./export-world.ts";

describe("the verification of an export", () => {
  let world: ExportWorld;
  let lines: string[];

  before(async () => {
    world = await startExportWorld();
    lines = world.lines;
  });
  after(() => world.stop());

  const getThumbprint = async () => (await world.run(["keys", "--thumbprint"])).output.trim();

  it("an export can be verified with the thumbprint that the command `keys --thumbprint` prints", async () => {
    const args = ["verify", world.file, "--key", await getThumbprint()];
    const { code, output: out } = await world.run(args, {});
    expect(code).to.equal(0);
    expect(out).to.contain("complete and unaltered");
    expect((await world.run([...args, "--json"], {})).code).to.equal(0);
  });

  const alterLine = (index: number, change: (line: string) => string) =>
    lines.map((line, position) => (position === index ? change(line) : line)).join("");
  const alterManifest = (change: (line: string) => string) => alterLine(lines.length - 1, change);
  const removeLine = (index: number) => lines.filter((_, position) => position !== index).join("");
  /**
   * Each alteration has a description, a function that returns the altered file, and the number of the first wrong
   * line. 0 means the last line, and -1 means the line before the last.
   */
  const alterations: [string, () => string, number][] = [
    ["an event was altered", () => alterLine(3, (line) => line.replace('"operator"', '"system"')), 4],
    ["an event was removed", () => removeLine(3), 4],
    ["the first event was removed", () => removeLine(0), 1],
    ["the last event was removed", () => removeLine(lines.length - 2), -1],
    ["an event was repeated", () => alterLine(3, (line) => line + line), 5],
    ["two events were exchanged", () => [...lines.slice(0, 2), lines[3], lines[2], ...lines.slice(4)].join(""), 3],
    ["a line contains an additional space", () => alterLine(2, (line) => line.replace(":", ": ")), 3],
    ["a line has two members `chain`", () => alterLine(2, (line) => line.replace("{", '{"chain":"0",')), 3],
    ["a line ends with CR LF", () => alterLine(2, (line) => line.replace("\n", "\r\n")), 3],
    [
      "a line contains half of a surrogate pair",
      () => alterLine(2, (line) => line.replace(/"type":"[^"]*"/, '"type":"\\ud800"')),
      3,
    ],
    ["a blank line was inserted", () => alterLine(1, (line) => `${line}\n`), 3],
    ["the last lines were removed", () => lines.slice(0, 4).join(""), 5],
    ["the file ends in the middle of a line", () => lines.slice(0, 4).join("").slice(0, -20), 4],
    ["the file is empty", () => "", 1],
    ["the last line has no line ending", () => lines.join("").slice(0, -1), 0],
    ["an event follows the manifest", () => `${lines.join("")}${lines[0]}`, 0],
    [
      "the manifest has another number of events",
      () => alterManifest((line) => line.replace(/"count":\d+/, '"count":1')),
      0,
    ],
    [
      "the manifest names another clinic",
      () => alterManifest((line) => line.replace(world.history.clinicId, randomUUID())),
      0,
    ],
    [
      "the signature of the manifest is empty",
      () => alterManifest((line) => line.replace(/"signature":"[^"]*"/, '"signature":""')),
      0,
    ],
    [
      "the signature of the manifest is missing",
      () => alterManifest((line) => `${toCanonicalJson({ manifest: JSON.parse(line).manifest })}\n`),
      0,
    ],
  ];
  for (const [caseName, getContent, line] of alterations) {
    it(`verification fails and names the first wrong line if ${caseName}`, async () => {
      const { code, ok, line: wrongLineNumber, problem } = await world.verify(getContent());
      const expectedLineNumber = line > 0 ? line : lines.length + line;
      expect([code, ok, wrongLineNumber], problem).to.deep.equal([3, false, expectedLineNumber]);
    });
  }

  /** Alters the third event and recomputes the hash chain, the manifest and, with the given keys, the signature. */
  async function forgeExport(signingKeys: string, alterEvent: (event: Record<string, unknown>) => void) {
    let link = CHAIN_SEED;
    const eventLines = lines.slice(0, -1).map((line, index) => {
      const { event } = JSON.parse(line);
      if (index === 2) alterEvent(event);
      link = computeNextLink(link, toCanonicalJson(event));
      return `${toCanonicalJson({ chain: link, event })}\n`;
    });
    const { manifest, signature: oldSignature } = JSON.parse(lines.at(-1) ?? "");
    manifest.chain = link;
    const [jwk] = JSON.parse(signingKeys).keys;
    const { kty, crv, x } = jwk;
    const signature = await new CompactSign(Buffer.from(toCanonicalJson(manifest)))
      .setProtectedHeader({ alg: "EdDSA", typ: "audit-export+jws", jwk: { kty, crv, x } })
      .sign(await importJWK(jwk, "EdDSA"));
    return {
      signedExport: [...eventLines, `${toCanonicalJson({ manifest, signature })}\n`].join(""),
      exportWithOldManifest: [...eventLines, lines.at(-1)].join(""),
      exportWithOldSignature: [...eventLines, `${toCanonicalJson({ manifest, signature: oldSignature })}\n`].join(""),
    };
  }
  const forgeType = (event: Record<string, unknown>) => {
    event.type = "Forged";
  };

  it("verification fails if the hash chain was recomputed and signed with another key", async () => {
    const { signedExport } = await forgeExport(await createSigningKeys(), forgeType);
    expect(await world.verify(signedExport))
      .to.include({ ok: false, line: lines.length })
      .and.have.property("problem")
      .that.contains("untrusted key");
  });

  it("verification of a recomputed hash chain with an old signature fails and names the altered line", async () => {
    const { exportWithOldManifest, exportWithOldSignature } = await forgeExport(await createSigningKeys(), forgeType);
    expect(await world.verify(exportWithOldManifest)).to.deep.include({ ok: false, line: 3 });
    expect(await world.verify(exportWithOldSignature)).to.deep.include({ ok: false, line: 3 });
    const { signedExport } = await forgeExport(world.env.AUDIT_SIGNING_KEYS ?? "", () => undefined);
    expect((await world.verify(signedExport)).ok, "an unaltered export").to.equal(true);
  });

  it("verification with another key fails, and the command `verify` refuses an invalid value of `--key`", async () => {
    const otherKeys = await createSigningKeys();
    expect((await world.verify(lines.join(""), otherKeys)).code).to.equal(3);
    for (const key of ["no key", path.join(world.folder, "nothing")]) {
      const { code, errorLines: err } = await world.run(["verify", world.file, "--key", key], {});
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
    const { signedExport } = await forgeExport(otherKeys, forgeType);
    const workingDirectory = process.cwd();
    process.chdir(world.folder);
    try {
      const { output: out } = await world.run(["keys"], { ...world.env, AUDIT_SIGNING_KEYS: otherKeys });
      fs.writeFileSync(thumbprint, out);
      expect((await world.verify(signedExport, `./${thumbprint}`)).ok, "with the key of the file").to.equal(true);
      expect((await world.verify(signedExport, thumbprint)).problem).to.contain("untrusted key");
    } finally {
      process.chdir(workingDirectory);
    }
  });
});
