import { execFile, spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import { makeTestRoot } from "../../../support/stack.ts";
import { runAuditCommand } from "../cli-terminal.ts";
import { createManyEvents } from "./vector-events.ts";
import { exportLines } from "./vector-export.ts";
import type { Vector } from "./vectors.ts";

const verifierFolder = fileURLToPath(new URL("../../../../docs/audit-verifier/", import.meta.url));
const vectorFolder = fileURLToPath(new URL("./vectors/", import.meta.url));
const vectors: Vector[] = JSON.parse(fs.readFileSync(path.join(vectorFolder, "vectors.json"), "utf8"));

/** Runs the command line of verify.py for several lists of arguments in one process, and prints the exit codes. */
const DRIVER = `
import json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import verify
for arguments in json.loads(sys.argv[2]):
    print(json.dumps({"code": verify.main(arguments)}))
`;

interface PythonResult {
  code: number;
  ok?: boolean;
  fault?: string;
  line?: number | null;
}

/** Verifies files with verify.py. */
async function verifyWithPython(files: { file: string; keys: string }[]): Promise<PythonResult[]> {
  const argumentLists = files.map(({ file, keys }) => [file, "--keys", keys, "--json"]);
  const { stdout } = await promisify(execFile)(
    "python3",
    ["-c", DRIVER, verifierFolder, JSON.stringify(argumentLists)],
    {
      cwd: vectorFolder,
      env: { ...process.env, PYTHONUTF8: "1" },
    },
  );
  const results: PythonResult[] = [];
  let verdict = {};
  for (const line of stdout.trimEnd().split("\n")) {
    const value = JSON.parse(line);
    if ("code" in value) {
      results.push({ ...verdict, ...value });
      verdict = {};
    } else verdict = value;
  }
  return results;
}

describe("the verifier in Python", () => {
  before(function () {
    // Python is not a requirement of the project, so these tests are skipped, and reported as skipped, without it.
    if (spawnSync("python3", ["--version"]).status !== 0) this.skip();
  });

  it("the verifier in Python returns the expected result for each test vector", async () => {
    const results = await verifyWithPython(vectors);
    const summaries = results.map(({ code, fault = null, line = null }, index) => ({
      ...{ file: vectors[index]?.file, keys: vectors[index]?.keys },
      ...{ code, fault, line },
    }));
    expect(summaries).to.deep.equal(
      vectors.map(({ file, keys, fault, line }) => ({ file, keys, code: fault === null ? 0 : 3, fault, line })),
    );
  });

  it("both verifiers accept an export with more events than marks, and locate a removed event in its interval", async () => {
    const folder = makeTestRoot();
    const keys = path.join(vectorFolder, "keys.json");
    const lines = await exportLines(createManyEvents());
    const [file, cutFile] = [path.join(folder, "long.ndjson"), path.join(folder, "cut.ndjson")];
    fs.writeFileSync(file, lines.join(""));
    fs.writeFileSync(cutFile, [...lines.slice(0, -2), lines.at(-1)].join(""));
    const { output } = await runAuditCommand(["verify", file, "--key", keys, "--json"]);
    expect(JSON.parse(output)).to.have.nested.property("manifest.marks.every", 2);
    const { output: cutOutput } = await runAuditCommand(["verify", cutFile, "--key", keys, "--json"]);
    expect(JSON.parse(cutOutput)).to.include({ fault: "chain_not_signed", line: 4_099 });
    const [result, cutResult] = await verifyWithPython([
      { file, keys },
      { file: cutFile, keys },
    ]);
    expect([result?.code, result?.ok]).to.deep.equal([0, true]);
    expect(cutResult).to.include({ code: 3, fault: "chain_not_signed", line: 4_099 });
  });

  it("the verifier in Python accepts a thumbprint, and exits with code 2 for invalid input", async () => {
    const [file, keys] = ["history.ndjson", "keys.json"];
    const results = await verifyWithPython([
      { file, keys: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" },
      { file, keys: "nothing.json" },
      { file, keys: "vectors.json" },
      { file: "nothing.ndjson", keys },
    ]);
    expect(results.map(({ code }) => code)).to.deep.equal([0, 2, 2, 2]);
    const { status, stdout } = spawnSync(
      "python3",
      ["verify.py", path.join(vectorFolder, file), "--keys", path.join(vectorFolder, keys)],
      { cwd: verifierFolder, encoding: "utf8" },
    );
    expect(status).to.equal(0);
    expect(stdout).to.contain("history.ndjson is complete and unaltered");
  });
});
