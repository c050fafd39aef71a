import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { openLocalRoot } from "../../../deploy/local/setup/local-root.ts";
import { buildNodeCommand, PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { prepareStackDatabase } from "../../../deploy/local/stack/stack.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createReadModelDatabase } from "../../support/read-models.ts";
import { getRejection } from "../../support/rejection.ts";
import { makeTestRoot } from "../../support/stack.ts";

function runReset(root: string) {
  const { command, args } = buildNodeCommand("deploy/local/reset.ts");
  const env = { PATH: process.env.PATH, LOCAL_DIR: root };
  return spawnSync(command, args, { cwd: PROJECT_FOLDER, env, encoding: "utf8" });
}

describe("reset", () => {
  it("`npm run reset` fails with a one-line error while the stack is running, and deletes the folder of a stopped stack", async () => {
    const root = makeTestRoot();
    const localRoot = await openLocalRoot(root);
    const resetResult = runReset(root);
    expect(resetResult.status).to.equal(1);
    expect(resetResult.stderr).to.equal(`The stack in ${root} is running as process ${process.pid}. Stop it first.\n`);
    expect(fs.existsSync(localRoot.paths.secrets)).to.equal(true);
    localRoot.release();
    expect(runReset(root).status).to.equal(0);
    expect(fs.existsSync(root)).to.equal(false);
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
    const firstRoot = await openLocalRoot(root);
    firstRoot.release();
    const secondRoot = await openLocalRoot(root);
    secondRoot.release();
    expect(secondRoot.secrets).to.eql(firstRoot.secrets);
    expect(fs.statSync(firstRoot.paths.secrets).mode & 0o777).to.equal(0o600);
    expect(new Set(Object.values(firstRoot.secrets.postgres)).size).to.equal(5);
  });

  it("openLocalRoot names `npm run reset` if the secrets are damaged, or another version wrote the data", async () => {
    const root = makeTestRoot();
    const { paths, release } = await openLocalRoot(root);
    release();
    fs.writeFileSync(paths.secrets, "{");
    expect((await getRejection(openLocalRoot(root))).message).to.match(/secrets\.json is damaged.*npm run reset/);
    for (const writeOtherVersion of [() => fs.writeFileSync(paths.version, "0"), () => fs.rmSync(paths.version)]) {
      writeOtherVersion();
      expect((await getRejection(openLocalRoot(root))).message).to.equal(
        `${root} contains data of another version. Run npm run reset to delete it, then start again.`,
      );
      expect(fs.existsSync(paths.lock)).to.equal(false);
    }
    expect(runReset(root).status).to.equal(0);
  });

  it("openLocalRoot refuses a folder that contains other files", async () => {
    const root = makeTestRoot();
    fs.writeFileSync(path.join(root, "letter.txt"), "dear");
    expect((await getRejection(openLocalRoot(root))).message).to.include("contains other files");
  });
});

describe("prepareStackDatabase", () => {
  it("prepareStackDatabase names `npm run reset` if the embedded Postgres has read models of another version", async () => {
    const database = await createReadModelDatabase();
    const url = database.urls.projection;
    await prepareStackDatabase(url, false);
    await database.admin.query(`UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET fingerprint = 'of another version'`);
    expect((await getRejection(prepareStackDatabase(url, false))).message).to.match(
      /read models of another version.*npm run reset/,
    );
    await prepareStackDatabase(url, true);
  });
});
