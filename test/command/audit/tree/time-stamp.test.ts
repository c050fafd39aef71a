import { execFile, spawnSync } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import { promisify } from "node:util";
import { expect } from "chai";
import { listenOnLoopback } from "../../../support/loopback.ts";
import { createClinic } from "../../../support/partner.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { startAuditWorld } from "../world.ts";

const run = promisify(execFile);

/** Starts an HTTP server that creates time stamps with `openssl ts`. @returns host and port */
async function startTimeStampServer(folder: string): Promise<string> {
  const settings = {
    ...{ serial: "serial", signer_cert: "time-stamp-ca.pem", certs: "time-stamp-ca.pem", signer_key: "key.pem" },
    ...{ signer_digest: "sha256", default_policy: "1.2.3.4.1", digests: "sha256", ess_cert_id_alg: "sha256" },
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
  fs.writeFileSync(`${folder}/tsa.cnf`, ["[tsa]", "default_tsa = server", "[server]", ...lines, ""].join("\n"));
  const keyArgs = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  const nameArgs = ["-subj", "/CN=Test time stamps", "-addext", "extendedKeyUsage=critical,timeStamping"];
  const fileArgs = ["-keyout", "key.pem", "-out", "time-stamp-ca.pem"];
  await run("openssl", [...keyArgs, ...nameArgs, ...fileArgs], { cwd: folder });
  const server = http.createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    fs.writeFileSync(`${folder}/request.tsq`, Buffer.concat(chunks));
    const args = ["ts", "-reply", "-config", "tsa.cnf", "-queryfile", "request.tsq", "-out", "reply.tsr"];
    await run("openssl", args, { cwd: folder });
    response.setHeader("Content-Type", "application/timestamp-reply");
    response.end(fs.readFileSync(`${folder}/reply.tsr`));
  });
  return (await listenOnLoopback(server)).host;
}

describe("time stamps of tree heads", () => {
  it("the commands of docs/auditing.md give a tree head a time stamp that is valid for exactly this file", async function () {
    // OpenSSL and curl are no requirements of the project.
    if (spawnSync("openssl", ["version"]).status !== 0 || spawnSync("curl", ["--version"]).status !== 0) this.skip();
    const [, commands = ""] =
      /```sh\n( *openssl ts -query[^`]*)```/.exec(fs.readFileSync("docs/auditing.md", "utf8")) ?? [];
    const folder = makeTestRoot();
    fs.mkdirSync(`${folder}/.local`);
    const headFile = `${folder}/.local/head.json`;
    const host = await startTimeStampServer(folder);
    const world = await startAuditWorld();
    try {
      await createClinic(world.log);
      expect((await world.run(["tree-head", "--out", headFile])).code).to.equal(0);
      const env = { ...process.env, TIME_STAMP_URL: `http://${host}/` };
      await run("bash", ["-euc", commands], { cwd: folder, env });
      fs.appendFileSync(headFile, " ");
      const verify = commands.trim().split("\n").at(-1)!;
      expect(spawnSync("bash", ["-c", verify], { cwd: folder }).status).to.equal(1);
    } finally {
      await world.stop();
    }
  });
});
