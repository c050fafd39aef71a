import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { rebuildReadModels } from "../../projection/cli/rebuild.ts";
import { showStatus } from "../../projection/cli/status.ts";
import { verifyReadModels } from "../../projection/cli/verify.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { eventually } from "../support/eventually.ts";
import { createEngineWorld, createRegisteredEvent, createRenamedEvent, type EngineWorld } from "./engine-world.ts";
import { runInProcess } from "./in-process-cli.ts";
import { createReleaseTree, type ReleaseTree } from "./release-tree.ts";
import { runCli, type ServiceProcess, startService } from "./service-process.ts";

const LEADER_METRIC = 'projection_leader{role="projectors"}';
const OTHER_RELEASE = "the read models belong to another release";

describe("two releases at once", function () {
  this.timeout(300_000);
  let world: EngineWorld;
  let newerTree: ReleaseTree;
  const services: ServiceProcess[] = [];

  before(async () => {
    world = await createEngineWorld();
    newerTree = await createReleaseTree();
    // The newer release adds a column to a read model: the customer's name in capitals.
    await newerTree.patch("projection/read-models/customers.ts", [
      ['    full_name: "text",', '    full_name: "text",\n    shouted: "text",'],
      [/\.\.\.toColumns\(data\),/g, "...toColumns(data), shouted: data.fullName.toUpperCase(),"],
    ]);
    await newerTree.build();
  });

  after(async () => {
    for (const service of services) await service.kill();
    await world.close();
    await newerTree.remove();
  });

  const startProcess = async (root?: string) => {
    const { eventstoreUrl, databaseUrl } = world;
    const service = await startService({
      eventstoreUrl,
      databaseUrl,
      roles: "projectors",
      ...(root && { root }),
    });
    services.push(service);
    return service;
  };
  const runNewerCli = (...args: string[]) => runCli(world, args, newerTree.root);
  const isLeading = async (service: ServiceProcess) => (await service.readGauge(LEADER_METRIC)) === 1;
  const waitForStandby = (service: ServiceProcess) =>
    eventually("it stands by", async () => {
      const { status, parts } = await service.readHealth();
      return status === 503 && parts.projectors?.startsWith(OTHER_RELEASE) && !(await isLeading(service));
    });
  const readRows = async () =>
    (await world.pool.query(`SELECT full_name, shouted FROM ${READ_MODEL_SCHEMA}.customer ORDER BY 1`)).rows;

  it("two releases never write to each other's read models", async () => {
    const [firstId, secondId] = [randomUUID(), randomUUID()];
    const olderService = await startProcess();
    await world.append(`customer-${firstId}`, createRegisteredEvent(firstId, "Ana"));
    await eventually("its row", async () => (await world.readName(firstId)) === "Ana");
    await eventually("the older one leads", () => isLeading(olderService));
    const newerService = await startProcess(newerTree.root);
    await waitForStandby(newerService);
    await eventually("its log says so", () =>
      newerService.lines.some(({ msg }) => msg.startsWith("The read models belong to another release.")),
    );

    const rebuildResult = await runNewerCli("rebuild");
    expect(rebuildResult.code, rebuildResult.stderr).to.equal(0);
    await waitForStandby(olderService);
    await eventually("the newer one leads", () => isLeading(newerService));
    await world.append(`customer-${secondId}`, createRegisteredEvent(secondId, "Bor"));
    await world.append(`customer-${firstId}`, createRenamedEvent(firstId, "Ana K"));
    const expectedRows = [
      { full_name: "Ana K", shouted: "ANA K" },
      { full_name: "Bor", shouted: "BOR" },
    ];
    await eventually("its rows", async () => (await readRows()).at(-1)?.shouted === "BOR");
    await eventually("all rows", async () => JSON.stringify(await readRows()) === JSON.stringify(expectedRows));

    // The older release does not take over, even if the newer release does not run.
    await newerService.kill();
    const lateService = await startProcess();
    await waitForStandby(lateService);
    await waitForStandby(olderService);
    await world.append(`customer-${secondId}`, createRenamedEvent(secondId, "Bor R"));
    // For ten seconds, the status would still show the last report of the killed process.
    await world.pool.query("DELETE FROM projection.process_status WHERE state = 'running'");
    const status = await eventually("the status", async () => {
      const { stdout } = await runInProcess(world, (context) => showStatus(context, { json: false }));
      return /is on standby: the read models belong to another release/.test(stdout) && stdout;
    });
    expect(status).to.contain("The read models belong to another release. Run that release, or");
    const refusal = await runInProcess(world, verifyReadModels).catch((error: Error) => error);
    expect((refusal as Error).message).to.contain(OTHER_RELEASE);
    expect(await readRows()).to.deep.equal(expectedRows);
    const restartedService = await startProcess(newerTree.root);
    await eventually("the newer one leads again", () => isLeading(restartedService));
    await eventually("the live event", async () => (await readRows()).at(-1)?.shouted === "BOR R");
    expect((await runNewerCli("verify")).stdout).to.match(/: 0 differ$/m);

    // A rebuild with the older release switches the read models back to that release.
    const olderRebuildResult = await runInProcess(world, (context) => rebuildReadModels(context));
    expect(olderRebuildResult.code).to.equal(0);
    await waitForStandby(restartedService);
    await eventually(
      "an older one leads",
      async () => (await isLeading(olderService)) || (await isLeading(lateService)),
    );
  });
});
