import { randomUUID } from "node:crypto";
import { cp, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { createSessionCookie } from "../../deploy/local/demo-data/credentials.ts";
import { ensureReadModels } from "../../projection/prepare-database.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { startQueryApi } from "../../query-api/start.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { RunningService } from "../../shared/runtime/run-service.ts";
import { bundle } from "../support/bundle.ts";
import { eventually } from "../support/eventually.ts";
import { queryEnvironment } from "../support/query-environment.ts";
import { useResource } from "../support/resources.ts";
import { createEngineWorld, createRegisteredEvent } from "./engine-world.ts";
import { runCli, type ServiceProcess, startService } from "./service-process.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Schema of the former release's read models. */
const FORMER_RELEASE_SCHEMA = "read_model_of_former_release";

/**
 * Copies this source tree and changes the read models: customers get an additional column. The copy acts as the former
 * release.
 *
 * @returns the copy's folder
 */
async function createFormerRelease(): Promise<string> {
  const root = await realpath(await mkdtemp(join(tmpdir(), "clinic-release-")));
  for (const name of ["projection", "shared", "package.json", "tsconfig.json"])
    await cp(join(ROOT, name), join(root, name), { recursive: true });
  await symlink(join(ROOT, "node_modules"), join(root, "node_modules"));
  const patch = async (path: string, ...replacements: [string | RegExp, string][]) => {
    let text = await readFile(join(root, path), "utf8");
    for (const [pattern, replacement] of replacements) {
      const textBefore = text;
      text = text.replace(pattern, replacement);
      expect(text, String(pattern)).not.to.equal(textBefore);
    }
    await writeFile(join(root, path), text);
  };
  await patch("shared/postgres/read-model-schema.ts", [`"${READ_MODEL_SCHEMA}"`, `"${FORMER_RELEASE_SCHEMA}"`]);
  await patch(
    "projection/read-models/customers.ts",
    ['    full_name: "text",', '    full_name: "text",\n    shouted: "text",'],
    [/\.\.\.toColumns\(data\),/g, "...toColumns(data), shouted: data.fullName.toUpperCase(),"],
  );
  await bundle(root, ["projection/main.ts", "projection/cli/main.ts", "projection/engine/log-reader-thread.ts"], root);
  return root;
}

describe("a release with its own read models", function () {
  this.timeout(300_000);
  const world = useResource(createEngineWorld);
  let formerRoot: string;
  let formerService: ServiceProcess;
  let queryApi: RunningService | undefined;

  before(async () => {
    await world.pool.query(`DROP SCHEMA ${READ_MODEL_SCHEMA} CASCADE`);
    formerRoot = await createFormerRelease();
    expect(await runCli(world, ["migrate"], formerRoot)).to.include({ code: 0 });
    formerService = await startFormerService();
  });

  after(async () => {
    await queryApi?.stop();
    await formerService?.kill();
    await rm(formerRoot, { recursive: true });
  });

  const startFormerService = () => startService({ ...world, roles: "projectors", root: formerRoot });
  const registerCustomer = async (name: string) => {
    const id = randomUUID();
    await world.append(`customer-${id}`, createRegisteredEvent(id, name));
  };
  const readNames = async (schema: string, column: string) => {
    const sql = `SELECT ${column} AS name FROM ${schema}.customer ORDER BY 1`;
    return (await world.pool.query<{ name: string }>(sql)).rows.map(({ name }) => name).join();
  };
  const waitForNames = (schema: string, column: string, names: string) =>
    eventually(`${schema} contains ${names}`, async () => (await readNames(schema, column)) === names);
  const getFromQueryApi = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${queryApi?.url}${path}`, { headers });
    return { status: response.status, ...((await response.json()) as object) };
  };
  const readReadiness = () => getFromQueryApi("/health/ready");
  const listClinics = async () => {
    const { PORTAL_JWT_SECRET: jwtSecret, PORTAL_JWT_ISSUER: jwtIssuer, PORTAL_COOKIE_NAME } = queryEnvironment;
    const portal = { jwtSecret, jwtIssuer, cookieName: PORTAL_COOKIE_NAME };
    const Cookie = await createSessionCookie({ id: randomUUID(), email: "owner@example.test" }, portal, Date.now());
    return getFromQueryApi("/api/v1/clinics", { Cookie });
  };
  const prune = async () => {
    const { stdout, stderr } = await world.runCommand("prune");
    return stdout + stderr;
  };

  it("both releases follow the log, and the former release can take over again until its read models are dropped", async () => {
    await registerCustomer("Ana");
    await waitForNames(FORMER_RELEASE_SCHEMA, "shouted", "ANA");

    // The new release creates empty read models. Its query API is not ready before they are filled.
    await ensureReadModels(world.pool, readModels);
    queryApi = await startQueryApi({ ...queryEnvironment, DATABASE_URL: world.databaseUrl });
    expect(await readReadiness()).to.deep.include({
      status: 503,
      parts: { postgres: null, readModels: "not filled yet" },
    });
    expect(await listClinics()).to.include({ status: 503, error: "data_source_unavailable" });
    expect(await prune()).to.contain("are not filled yet");
    world.startProjectors();
    await eventually("the query API of the new release is ready", async () => (await readReadiness()).status === 200);
    // The user is no member of a clinic, so a read that succeeds finds nothing.
    expect(await listClinics()).to.include({ status: 403 });
    expect(await readNames(READ_MODEL_SCHEMA, "full_name")).to.equal("Ana");

    await registerCustomer("Bor");
    await waitForNames(READ_MODEL_SCHEMA, "full_name", "Ana,Bor");
    await waitForNames(FORMER_RELEASE_SCHEMA, "shouted", "ANA,BOR");
    expect((await formerService.readHealth()).status).to.equal(200);
    const { stdout } = await world.runCommand("status");
    expect(stdout).to.contain(`read models of other releases: ${FORMER_RELEASE_SCHEMA}`);
    expect(await prune()).to.contain(`:${formerService.child.pid} projectors (${FORMER_RELEASE_SCHEMA}).`);

    // The former release continues where it stopped.
    await formerService.kill();
    await registerCustomer("Cene");
    await waitForNames(READ_MODEL_SCHEMA, "full_name", "Ana,Bor,Cene");
    formerService = await startFormerService();
    await waitForNames(FORMER_RELEASE_SCHEMA, "shouted", "ANA,BOR,CENE");

    await formerService.kill();
    await eventually("the former read models are dropped", async () =>
      (await prune()).includes(`Dropped ${FORMER_RELEASE_SCHEMA}.`),
    );
    expect(await prune()).to.contain("There are no read models of other releases.");
    await registerCustomer("Dana");
    await waitForNames(READ_MODEL_SCHEMA, "full_name", "Ana,Bor,Cene,Dana");
  });
});
