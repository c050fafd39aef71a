import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { expect } from "chai";
import { withClient } from "../../../deploy/local/servers/database-roles.ts";
import { buildSuperuserUrl } from "../../../deploy/local/servers/postgres.ts";
import { buildNodeCommand, getLocalPaths, PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { eventually } from "../../support/eventually.ts";
import { findFreePorts } from "../../support/free-ports.ts";
import { makeTestRoot } from "../../support/stack.ts";

describe("npm start", () => {
  it("`npm start` syncs Postgres to disk, and stops gracefully on Ctrl-C, even while the services start", async () => {
    const root = makeTestRoot();
    const ports = await findFreePorts();
    const portsByVariable = {
      GATEWAY_PORT: ports.gateway,
      COMMAND_PORT: ports.command,
      QUERY_API_PORT: ports.queryApi,
      PROJECTION_PORT: ports.projection,
      AUDIT_PORT: ports.audit,
      OPERATIONS_PORT: ports.operations,
      NATS_PORT: ports.nats,
      EVENTSTORE_PORT: ports.eventstore,
      POSTGRES_PORT: ports.postgres,
    };
    const portEnv = Object.fromEntries(Object.entries(portsByVariable).map(([name, port]) => [name, String(port)]));
    const { command, args } = buildNodeCommand("deploy/local/start.ts");
    const noServerUrls = { EVENTSTORE_URL: "", DATABASE_URL: "", NATS_URL: "" };
    const env = { ...process.env, ...portEnv, ...noServerUrls, LOCAL_DIR: root };
    const child = spawn(command, args, { cwd: PROJECT_FOLDER, env, stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk;
    });
    const exitPromise = once(child, "exit");
    await eventually("Postgres", () => output.includes("✓ postgres"), 100_000);
    const { postgres: passwords } = JSON.parse(fs.readFileSync(getLocalPaths(root).secrets, "utf8"));
    const superuserUrl = buildSuperuserUrl(ports.postgres, passwords.superuser);
    const { rows } = await withClient(superuserUrl, (client) => client.query("SHOW fsync"));
    expect(rows).to.eql([{ fsync: "on" }]);
    child.kill("SIGINT");
    expect(await exitPromise).to.eql([0, null]);
    expect(output).to.match(/\nStopped\.\n$/);
    expect(await withClient(superuserUrl, () => expect.fail("still runs")).catch(({ code }) => code)).to.equal(
      "ECONNREFUSED",
    );
    expect(fs.existsSync(getLocalPaths(root).lock)).to.equal(false);
  }).timeout(150_000);
});
