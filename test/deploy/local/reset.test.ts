import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { openLocalRoot } from "../../../deploy/local/setup/local-root.ts";
import { buildNodeCommand, PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { mountSmallDisk } from "../../support/small-disk.ts";
import { makeTestRoot } from "../../support/stack.ts";

function runReset(root: string) {
  const { command, args } = buildNodeCommand("deploy/local/reset.ts");
  const env = { PATH: process.env.PATH, LOCAL_DIR: root };
  return spawnSync(command, args, { cwd: PROJECT_FOLDER, env, encoding: "utf8" });
}

describe("reset", () => {
  it("`npm run reset` fails with a one-line error while the stack is running, and deletes the folder of a stopped stack", async () => {
    const root = makeTestRoot();
    const localRoot = await openLocalRoot(root, () => undefined);
    const resetResult = runReset(root);
    expect(resetResult.status).to.equal(1);
    expect(resetResult.stderr).to.equal(`The stack in ${root} is running as process ${process.pid}. Stop it first.\n`);
    expect(fs.existsSync(localRoot.paths.secrets)).to.equal(true);
    localRoot.release();
    expect(runReset(root).status).to.equal(0);
    expect(fs.existsSync(root)).to.equal(false);
  });

  it("`npm run reset` deletes the folder even if the disk is too full to create the lock", async function () {
    const disk = mountSmallDisk(this, 1);
    try {
      const root = path.join(disk.folder, "root");
      (await openLocalRoot(root, () => undefined)).release();
      disk.fill();
      const { status, stdout, stderr } = runReset(root);
      expect([status, stdout, stderr]).to.eql([0, `Deleted ${root}.\n`, ""]);
      expect(fs.existsSync(root)).to.equal(false);
    } finally {
      disk.remove();
    }
  });

  it("`npm run reset` refuses a folder that does not belong to a stack", () => {
    const root = makeTestRoot();
    fs.writeFileSync(path.join(root, "letter.txt"), "dear");
    expect(runReset(root).status).to.equal(1);
    expect(fs.readdirSync(root)).to.eql(["letter.txt"]);
  });
});

describe("openLocalRoot", () => {
  it("openLocalRoot creates the secrets once, in a file that only the file's owner can read", async () => {
    const root = makeTestRoot();
    const firstRoot = await openLocalRoot(root, () => undefined);
    firstRoot.release();
    const secondRoot = await openLocalRoot(root, () => undefined);
    secondRoot.release();
    expect(secondRoot.secrets).to.eql(firstRoot.secrets);
    expect(fs.statSync(firstRoot.paths.secrets).mode & 0o777).to.equal(0o600);
    expect(new Set(Object.values(firstRoot.secrets.postgres)).size).to.equal(5);
  });

  it("openLocalRoot adds missing secrets to the file of an earlier version, and refuses a damaged file", async () => {
    const root = makeTestRoot();
    const firstRoot = await openLocalRoot(root, () => undefined);
    firstRoot.release();
    const { auditSigningKeys: _, ...formerSecrets } = firstRoot.secrets;
    const { audit: __, ...postgres } = formerSecrets.postgres;
    fs.writeFileSync(firstRoot.paths.secrets, JSON.stringify({ ...formerSecrets, postgres }));
    const secondRoot = await openLocalRoot(root, () => undefined);
    secondRoot.release();
    expect(secondRoot.secrets).to.include({ tokenSigningKeys: formerSecrets.tokenSigningKeys });
    expect(secondRoot.secrets.postgres).to.include(postgres);
    expect(JSON.parse(secondRoot.secrets.auditSigningKeys).keys).to.have.length(1);
    fs.writeFileSync(firstRoot.paths.secrets, "{");
    const message = await openLocalRoot(root, () => undefined).catch((error: Error) => error.message);
    expect(message).to.include("is damaged");
  });

  it("openLocalRoot refuses a folder that contains other files", async () => {
    const root = makeTestRoot();
    fs.writeFileSync(path.join(root, "letter.txt"), "dear");
    const message = await openLocalRoot(root, () => undefined).catch((error: Error) => error.message);
    expect(message).to.include("contains other files");
  });
});
