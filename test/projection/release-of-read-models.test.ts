import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { createSessionCookie } from "../../deploy/local/demo-data/session.ts";
import { pruneOtherReadModels } from "../../projection/cli/prune.ts";
import { showStatus } from "../../projection/cli/status.ts";
import { ensureReadModels } from "../../projection/engine/ensure-schema.ts";
import { startProjectors } from "../../projection/engine/projectors.ts";
import { readModels } from "../../projection/read-models/all.ts";
import type { Role } from "../../projection/roles/role.ts";
import { startQueryApi } from "../../query-api/start.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { RunningService } from "../../shared/runtime/run-service.ts";
import { eventually } from "../support/eventually.ts";
import { queryEnvironment } from "../support/query-environment.ts";
import { createEngineWorld, createRegisteredEvent, type EngineWorld, logger } from "./engine-world.ts";
import { runInProcess } from "./in-process-cli.ts";
import { createReleaseTree, type ReleaseTree } from "./release-tree.ts";
import { runCli, type ServiceProcess, startService } from "./service-process.ts";

/** Schema of the former release. */
const FORMER_RELEASE_SCHEMA = "read_model_of_former_release";

/** Time for which the former read models must be unused before they are dropped. Milliseconds. */
const UNUSED_MS = 100;

describe("a release with its own read models", function () {
  this.timeout(300_000);
  let world: EngineWorld;
  /** The former release. The customers of its read models have an additional column. */
  let formerTree: ReleaseTree;
  let formerService: ServiceProcess;
  let projectors: Role | undefined;
  let queryApi: RunningService | undefined;

  before(async () => {
    world = await createEngineWorld();
    await world.pool.query(`DROP SCHEMA ${READ_MODEL_SCHEMA} CASCADE`);
    formerTree = await createReleaseTree();
    await formerTree.patch("shared/postgres/read-model-schema.ts", [
      [`"${READ_MODEL_SCHEMA}"`, `"${FORMER_RELEASE_SCHEMA}"`],
    ]);
    await formerTree.patch("projection/read-models/customers.ts", [
      ['    full_name: "text",', '    full_name: "text",\n    shouted: "text",'],
      [/\.\.\.toColumns\(data\),/g, "...toColumns(data), shouted: data.fullName.toUpperCase(),"],
    ]);
    await formerTree.build();
    expect(await runCli(world, ["migrate"], formerTree.root)).to.include({ code: 0 });
    formerService = await startFormerService();
  });

  after(async () => {
    await queryApi?.stop();
    await projectors?.stop();
    await formerService?.kill();
    await world.close();
    await formerTree.remove();
  });

  const startFormerService = () => startService({ ...world, roles: "projectors", root: formerTree.root });
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
    const result = await runInProcess(world, (context) => pruneOtherReadModels(context, UNUSED_MS)).catch(
      (error: Error) => ({ refusal: error.message }),
    );
    return "refusal" in result ? result.refusal : result.stdout;
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
    projectors = startProjectors({ ...world, logger, models: readModels });
    await eventually("the query API of the new release is ready", async () => (await readReadiness()).status === 200);
    // The user is no member of a clinic, so a read that succeeds finds nothing.
    expect(await listClinics()).to.include({ status: 403 });
    expect(await readNames(READ_MODEL_SCHEMA, "full_name")).to.equal("Ana");

    await registerCustomer("Bor");
    await waitForNames(READ_MODEL_SCHEMA, "full_name", "Ana,Bor");
    await waitForNames(FORMER_RELEASE_SCHEMA, "shouted", "ANA,BOR");
    expect((await formerService.readHealth()).status).to.equal(200);
    const { stdout } = await runInProcess(world, (context) => showStatus(context, { json: false }));
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
