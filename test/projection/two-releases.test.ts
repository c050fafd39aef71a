import { randomUUID } from "node:crypto";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { createEngineWorld, type EngineWorld, registered, renamed } from "./engine-world.ts";
import { runCli, type ServiceProcess, startService } from "./service-process.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const LEADER = 'projection_leader{role="projectors"}';
const OTHER = "the read models belong to another release";

describe("two releases at once", function () {
  this.timeout(300_000);
  let world: EngineWorld;
  /** The sources of a newer release. */
  let newer: string;
  const services: ServiceProcess[] = [];

  before(async () => {
    world = await createEngineWorld();
    newer = await mkdtemp(join(tmpdir(), "clinic-newer-"));
    for (const name of ["projection", "shared", "package.json", "tsconfig.json"]) {
      await cp(join(ROOT, name), join(newer, name), { recursive: true });
    }
    await symlink(join(ROOT, "node_modules"), join(newer, "node_modules"));
    // One more column in a read model: the customer's name in capitals.
    await patch("projection/read-models/customers.ts", [
      ['    full_name: "text",', '    full_name: "text",\n    shouted: "text",'],
      [/full_name: data\.fullName,/g, "full_name: data.fullName, shouted: data.fullName.toUpperCase(),"],
    ]);
  });

  after(async () => {
    for (const service of services) await service.kill();
    await world.close();
    await rm(newer, { recursive: true, force: true });
  });

  async function patch(path: string, changes: [string | RegExp, string][]): Promise<void> {
    const file = join(newer, path);
    let text = await readFile(file, "utf8");
    for (const [from, to] of changes) {
      const before = text;
      text = text.replace(from, to);
      expect(text, String(from)).not.to.equal(before);
    }
    await writeFile(file, text);
  }

  const start = async (root?: string) => {
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
  const cli = (root: string, ...args: string[]) => runCli(world, args, root);
  const leads = async (service: ServiceProcess) => (await service.gauge(LEADER)) === 1;
  const standsBy = (service: ServiceProcess) =>
    eventually(
      "it stands by",
      async () => {
        const { status, parts } = await service.health();
        return status === 503 && parts.projectors?.startsWith(OTHER) && !(await leads(service));
      },
      20_000,
    );
  const rows = async () =>
    (await world.pool.query("SELECT full_name, shouted FROM read_model.customer ORDER BY 1")).rows;

  it("two releases never write each other's read models", async () => {
    const [first, second] = [randomUUID(), randomUUID()];
    const older = await start();
    await world.append(`customer-${first}`, registered(first, "Ana"));
    await eventually("its row", async () => (await world.nameOf(first)) === "Ana");
    await eventually("the older one leads", () => leads(older));
    const newOne = await start(newer);
    await standsBy(newOne);
    await eventually("its log says so", () =>
      newOne.lines.some(({ msg }) => msg.startsWith("The read models belong to another release.")),
    );

    const rebuilt = await cli(newer, "rebuild");
    expect(rebuilt.code, rebuilt.err).to.equal(0);
    await standsBy(older);
    await eventually("the newer one leads", () => leads(newOne), 20_000);
    await world.append(`customer-${second}`, registered(second, "Bor"));
    await world.append(`customer-${first}`, renamed(first, "Ana K"));
    const expected = [
      { full_name: "Ana K", shouted: "ANA K" },
      { full_name: "Bor", shouted: "BOR" },
    ];
    await eventually("its rows", async () => (await rows()).at(-1)?.shouted === "BOR");
    await eventually("all rows", async () => JSON.stringify(await rows()) === JSON.stringify(expected));

    // The older release does not take over, even if the newer one is gone.
    await newOne.kill();
    const late = await start();
    await standsBy(late);
    await standsBy(older);
    await world.append(`customer-${second}`, renamed(second, "Bor R"));
    // The process that was killed is not forgotten at once.
    const status = await eventually(
      "the status",
      async () => {
        const { out } = await cli(ROOT, "status");
        return /is on standby: the read models belong to another release/.test(out) && out;
      },
      30_000,
    );
    expect(status).to.contain("The read models belong to another release. Run that release, or");
    expect((await cli(ROOT, "verify")).err).to.contain(OTHER);
    expect(await rows()).to.deep.equal(expected);
    const back = await start(newer);
    await eventually("the newer one leads again", () => leads(back), 20_000);
    await eventually("the live event", async () => (await rows()).at(-1)?.shouted === "BOR R");
    expect((await cli(newer, "verify")).out).to.match(/: 0 differ$/m);

    // The way back.
    const rebuiltByOlder = await cli(ROOT, "rebuild");
    expect(rebuiltByOlder.code, rebuiltByOlder.err).to.equal(0);
    await standsBy(back);
    await eventually("an older one leads", async () => (await leads(older)) || (await leads(late)), 20_000);
  });
});
