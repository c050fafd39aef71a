import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { openLocalRoot } from "../../../deploy/local/setup/local-root.ts";
import { buildNodeCommand, PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { mountSmallDisk } from "../../support/small-disk.ts";
import { makeTestRoot } from "../../support/stack.ts";

function reset(root: string) {
  const { command, args } = buildNodeCommand("deploy/local/reset.ts");
  const env = { PATH: process.env.PATH, LOCAL_DIR: root };
  return spawnSync(command, args, { cwd: PROJECT_FOLDER, env, encoding: "utf8" });
}

describe("reset", () => {
  it("`npm run reset` fails with a one-line error while the stack is running, and deletes the folder of a stopped stack", async () => {
    const root = makeTestRoot();
    const held = await openLocalRoot(root, () => undefined);
    const refused = reset(root);
    expect(refused.status).to.equal(1);
    expect(refused.stderr).to.equal(`The stack in ${root} is running as process ${process.pid}. Stop it first.\n`);
    expect(fs.existsSync(held.paths.secrets)).to.equal(true);
    held.release();
    expect(reset(root).status).to.equal(0);
    expect(fs.existsSync(root)).to.equal(false);
  });

  it("`npm run reset` deletes the folder even if the disk is too full to create the lock", async function () {
    const disk = mountSmallDisk(this, 1);
    try {
      const root = path.join(disk.folder, "root");
      (await openLocalRoot(root, () => undefined)).release();
      disk.fill();
      const { status, stdout, stderr } = reset(root);
      expect([status, stdout, stderr]).to.eql([0, `Deleted ${root}.\n`, ""]);
      expect(fs.existsSync(root)).to.equal(false);
    } finally {
      disk.remove();
    }
  });

  it("`npm run reset` refuses a folder that does not belong to a stack", () => {
    const root = makeTestRoot();
    fs.writeFileSync(path.join(root, "letter.txt"), "dear");
    expect(reset(root).status).to.equal(1);
    expect(fs.readdirSync(root)).to.eql(["letter.txt"]);
  });
});

describe("openLocalRoot", () => {
  it("openLocalRoot creates the secrets once, in a file that only the file's owner can read", async () => {
    const root = makeTestRoot();
    const first = await openLocalRoot(root, () => undefined);
    first.release();
    const second = await openLocalRoot(root, () => undefined);
    second.release();
    expect(second.secrets).to.eql(first.secrets);
    expect(fs.statSync(first.paths.secrets).mode & 0o777).to.equal(0o600);
    expect(new Set(Object.values(first.secrets.postgres)).size).to.equal(5);
  });

  it("openLocalRoot adds missing secrets to the file of an earlier version, and refuses a damaged file", async () => {
    const root = makeTestRoot();
    const first = await openLocalRoot(root, () => undefined);
    first.release();
    const { auditSigningKeys: _, ...former } = first.secrets;
    const { audit: __, ...postgres } = former.postgres;
    fs.writeFileSync(first.paths.secrets, JSON.stringify({ ...former, postgres }));
    const second = await openLocalRoot(root, () => undefined);
    second.release();
    expect(second.secrets).to.include({ tokenSigningKeys: former.tokenSigningKeys });
    expect(second.secrets.postgres).to.include(postgres);
    expect(JSON.parse(second.secrets.auditSigningKeys).keys).to.have.length(1);
    fs.writeFileSync(first.paths.secrets, "{");
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
