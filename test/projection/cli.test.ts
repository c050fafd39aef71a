import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { buildNodeCommand } from "../../deploy/local/setup/project.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { useResource } from "../support/resources.ts";
import { createTestDatabase } from "../support/stack.ts";
import { createEngineWorld, createRegisteredEvent, runCommandLine } from "./engine-world.ts";
import type { CliResult } from "./service-process.ts";

describe("the projection command line", () => {
  const world = useResource(createEngineWorld);
  let env: NodeJS.ProcessEnv;
  const customerId = randomUUID();

  before(async () => {
    env = { ...process.env, EVENTSTORE_URL: world.eventstoreUrl, DATABASE_URL: world.databaseUrl };
    await world.append(`customer-${customerId}`, createRegisteredEvent(customerId, "Ana Kos"));
  });

  const runProjection = (command: string, overrides: NodeJS.ProcessEnv = {}) =>
    runCommandLine({ ...env, ...overrides }, command.split(" "));
  /** Runs a command in a separate process. Unlike a run in this process, its output includes log lines. */
  const spawnProjection = (command: string, overrides: NodeJS.ProcessEnv = {}) =>
    new Promise<CliResult>((resolve) => {
      const nodeCommand = buildNodeCommand("projection/cli/main.ts", command.split(" "));
      const child = execFile(
        nodeCommand.command,
        nodeCommand.args,
        { env: { ...env, ...overrides } },
        (_, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
      );
    });

  it("`status` shows the lag, `rebuild` builds the read models, and `verify` finds no differences", async () => {
    const statusBefore = (await runProjection("status")).stdout;
    expect(statusBefore).to.match(/^projectors: .*\n {2}position {5}-1 {2}(about )?\d+ events? and [\d.]+ s behind$/m);
    expect(statusBefore).to.match(/^ {2}process {6}no process was ever started$/m);
    const rebuildResult = await runProjection("rebuild");
    expect(rebuildResult.stdout, rebuildResult.stderr).to.match(
      /^Rebuilt in [\d.]+ s\. The new read models are in use from position \d+\.$/m,
    );
    const status = await runProjection("status --json");
    const { followers, quarantined } = JSON.parse(status.stdout);
    expect(followers[0]).to.deep.include({ role: "projectors", lag: { events: 0, exact: true, seconds: 0 } });
    expect(BigInt(followers[0].position) > 0n).to.equal(true);
    expect(quarantined).to.be.an("array");
    const verifyResult = await runProjection("verify");
    expect(verifyResult.stdout).to.match(/^\d+ rows? compared at position \d+: 0 differ$/m);
    expect([rebuildResult.code, status.code, verifyResult.code]).to.deep.equal([0, 0, 0]);
  });

  it("`verify` reports a changed row and exits with 1", async () => {
    await world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.customer SET city = 'x' WHERE customer_id = $1`, [customerId]);
    const { code, stdout } = await runProjection("verify");
    expect(code).to.equal(1);
    expect(stdout).to.contain(`changed customer ${customerId}: city`).and.contain(": 1 differ");
    expect(stdout).not.to.contain("Ana Kos");
  });

  it("commands refuse a database that this release has not prepared, until `migrate` prepares it", async () => {
    const newDatabase = await createTestDatabase();
    const overrides = { DATABASE_URL: newDatabase.urls.projection };
    const refusal = await runProjection("status", overrides);
    expect(refusal.code).to.equal(2);
    expect(refusal.stderr.trim()).to.equal(
      "projection: The database is not prepared for this release. Run `clinic projection migrate` of this release.",
    );
    const firstResult = await spawnProjection("migrate", { ...overrides, EVENTSTORE_URL: undefined });
    expect([firstResult.code, firstResult.stderr]).to.deep.equal([0, ""]);
    expect(firstResult.stdout).to.match(/^Applied 000001-[\s\S]*\nThe database is prepared for this release\.\n/);
    const secondResult = await runProjection("migrate", overrides);
    const unfilledLine = "The read models are not filled yet. The projection service of this release fills them.";
    expect([secondResult.code, secondResult.stdout]).to.deep.equal([
      0,
      `The database is prepared for this release.\n${unfilledLine}\n`,
    ]);
  });

  const unavailableServers = "postgres://user:hunter2@127.0.0.1:1,127.0.0.1:2/clinic?target_session_attrs=read-write";
  const failures: [command: string, reason: string, overrides: NodeJS.ProcessEnv, code: number, line: RegExp][] = [
    [
      "status",
      "settings are missing",
      { EVENTSTORE_URL: undefined, DATABASE_URL: undefined },
      2,
      /^projection: settings: EVENTSTORE_URL is missing .*; DATABASE_URL is missing .*$/,
    ],
    [
      "rebuild",
      "DATABASE_URL is missing",
      { DATABASE_URL: undefined },
      2,
      /^projection: settings: DATABASE_URL is missing .*$/,
    ],
    [
      "migrate",
      "the database is unavailable",
      { DATABASE_URL: "postgres://user:hunter2@127.0.0.1:1/clinic" },
      4,
      /^projection: The database cannot be migrated\. Check DATABASE_URL\. .*ECONNREFUSED.*$/,
    ],
    [
      "status",
      "no server accepts connections, with the reason for each",
      { DATABASE_URL: unavailableServers },
      4,
      /^projection: The database is unavailable\. Check DATABASE_URL\. \(.*127\.0\.0\.1:1: .*ECONNREFUSED.*127\.0\.0\.1:2: .*\)$/,
    ],
  ];
  for (const [command, reason, overrides, expectedCode, line] of failures)
    it(`\`${command}\` prints one line and exits with ${expectedCode} if ${reason}`, async () => {
      const { code, stdout, stderr } = await spawnProjection(command, overrides);
      expect([code, stdout]).to.deep.equal([expectedCode, ""]);
      expect(stderr.trim()).to.match(line);
      expect(stderr).not.to.contain("hunter2");
    });
});
