import { execFile, spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import { makeTestRoot } from "../../../support/stack.ts";
import { runAuditCommand } from "../cli-terminal.ts";
import { treeVectors } from "../tree/vectors.ts";
import { CLINIC_ID, createManyEvents, OTHER_CLINIC_ID } from "./vector-events.ts";
import { exportLines, exportVectors } from "./vectors.ts";

const verifierFolder = fileURLToPath(new URL("../../../../docs/audit-verifier/", import.meta.url));
const { folder: vectorFolder, vectors } = exportVectors;

/** Python program that runs verify.py for several lists of arguments and prints the exit codes. Saves processes. */
const DRIVER = `
import json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import verify
for arguments in json.loads(sys.argv[2]):
    print(json.dumps({"code": verify.main(arguments)}))
`;

/** Python program that checks the functions of verify.py with the known answers for RFC 6962. */
const KNOWN_ANSWERS_CHECK = `
import json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import verify
answers = json.load(open(sys.argv[2] + "/rfc6962.json"))
roots = [bytes.fromhex(root) for root in answers["roots"]]
leaves = [verify.hash_leaf(bytes.fromhex(leaf)) for leaf in answers["leaves"]]
assert len(answers["leafPaths"]) > 0 and len(answers["consistencyPaths"]) > 0
for case in answers["leafPaths"]:
    path = [bytes.fromhex(text) for text in case["path"]]
    root = verify.compute_root_of_leaf(leaves[case["index"]], case["index"], case["size"], path)
    assert root == roots[case["size"]], case
for case in answers["consistencyPaths"]:
    path = [bytes.fromhex(text) for text in case["path"]]
    expected = (roots[case["from"]], roots[case["to"]])
    assert verify.compute_consistent_roots(case["from"], expected[0], case["to"], path) == expected, case
`;

interface PythonResult {
  code: number;
  ok?: boolean;
  fault?: string;
  line?: number | null;
}

function verifyWithPython(files: { file: string; keys: string }[]): Promise<PythonResult[]> {
  const argumentLists = files.map(({ file, keys }) => [file, "--key", keys, "--json"]);
  return runPythonVerifier(vectorFolder, argumentLists);
}

/** Runs verify.py once for each list of arguments. */
async function runPythonVerifier(folder: string, argumentLists: string[][]): Promise<PythonResult[]> {
  const { stdout } = await promisify(execFile)(
    "python3",
    ["-c", DRIVER, verifierFolder, JSON.stringify(argumentLists)],
    {
      cwd: folder,
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
    expect(
      results.map(({ code, fault = null, line = null }, index) => ({ ...vectors[index], code, fault, line })),
    ).to.eql(vectors.map((vector) => ({ ...vector, code: vector.fault === null ? 0 : 3 })));
  });

  it("both verifiers accept an export with more events than blocks, and locate a removed event in its block", async () => {
    const folder = makeTestRoot();
    const keys = path.join(vectorFolder, "keys.json");
    const lines = await exportLines(createManyEvents());
    const [file, cutFile] = [path.join(folder, "long.ndjson"), path.join(folder, "cut.ndjson")];
    fs.writeFileSync(file, lines.join(""));
    fs.writeFileSync(cutFile, [...lines.slice(0, -2), lines.at(-1)].join(""));
    const { output } = await runAuditCommand(["verify", file, "--key", keys, "--json"]);
    expect(JSON.parse(output)).to.have.nested.property("manifest.blocks.lines", 8);
    const { output: cutOutput } = await runAuditCommand(["verify", cutFile, "--key", keys, "--json"]);
    expect(JSON.parse(cutOutput)).to.include({ fault: "lines_changed", line: 4_097 });
    // The file has more lines than blocks, and the signed blocks are smaller than those of the file.
    const [shorter, grownFile] = [
      await exportLines(createManyEvents().slice(0, 900)),
      path.join(folder, "grown.ndjson"),
    ];
    fs.writeFileSync(grownFile, [...lines.slice(0, 1_100), shorter.at(-1)].join(""));
    const { output: grownOutput } = await runAuditCommand(["verify", grownFile, "--key", keys, "--json"]);
    expect(JSON.parse(grownOutput)).to.include({ fault: "lines_changed", line: 901 });
    const [result, cutResult, grownResult] = await verifyWithPython(
      [file, cutFile, grownFile].map((name) => ({ file: name, keys })),
    );
    expect(grownResult).to.include({ code: 3, fault: "lines_changed", line: 901 });
    expect([result?.code, result?.ok]).to.deep.equal([0, true]);
    expect(cutResult).to.include({ code: 3, fault: "lines_changed", line: 4_097 });
  });

  it("the verifier in Python returns the expected result for each test vector of tree heads and proofs", async () => {
    const argumentLists = treeVectors.vectors.map(({ file, keys, heads = [] }) => [
      ...["--proof", file, "--key", keys, "--json"],
      ...heads.flatMap((head) => ["--head", head]),
    ]);
    const results = await runPythonVerifier(treeVectors.folder, argumentLists);
    expect(results.map(({ code, fault = null }, index) => ({ ...treeVectors.vectors[index], code, fault }))).to.eql(
      treeVectors.vectors.map((vector) => ({ ...vector, code: vector.fault === null ? 0 : 3 })),
    );
  });

  it("the verifier in Python computes the known answers for RFC 6962", () => {
    const { status, stderr } = spawnSync("python3", ["-c", KNOWN_ANSWERS_CHECK, verifierFolder, treeVectors.folder], {
      encoding: "utf8",
    });
    expect([status, stderr]).to.deep.equal([0, ""]);
  });

  it("the verifier in Python compares an export with the expected clinic and range", async () => {
    const args = ["range.ndjson", "--key", "keys.json", "--json"];
    const expected = ["--clinic", CLINIC_ID, "--from", "2026-05-04T10:02:00+02:00", "--to", "2026-05-04T08:08:00Z"];
    const results = await runPythonVerifier(vectorFolder, [
      [...args, ...expected],
      [...args, "--from", "start"],
      [...args, "--to", "2026-05-04T08:08:00.001Z"],
      [...args, "--clinic", OTHER_CLINIC_ID],
    ]);
    const unexpected = { code: 3, ok: false, fault: "unexpected_export", line: 4 };
    expect(results[0]).to.include({ code: 0, ok: true });
    for (const result of results.slice(1)) expect(result).to.include(unexpected);
    expect(results.length).to.equal(4);
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
      ["verify.py", path.join(vectorFolder, file), "--key", path.join(vectorFolder, keys)],
      { cwd: verifierFolder, encoding: "utf8" },
    );
    expect(status).to.equal(0);
    expect(stdout).to.contain("history.ndjson is complete and unaltered");
  });
});
