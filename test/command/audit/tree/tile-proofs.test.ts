import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { createAuditSigner } from "../../../../command/audit/export/signing.ts";
import { formatCheckpoint } from "../../../../command/audit/tree/checkpoint.ts";
import { hashLeaf } from "../../../../command/audit/tree/merkle-tree.ts";
import { publishTreeHead } from "../../../../command/audit/tree/publish-tree-head.ts";
import { TiledTree, toCheckpointFile } from "../../../../command/audit/tree/tiled-tree.ts";
import { TileEdge, writeTiles } from "../../../../command/audit/tree/write-tiles.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { readConfig } from "../../../../shared/runtime/config.ts";
import { eventually } from "../../../support/eventually.ts";
import { startOwnLog } from "../../../support/own-log.ts";
import { createClinic, createTestOperatorContext } from "../../../support/partner.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { createStoredMetadata } from "../../../support/stored-metadata.ts";
import { createSigningKeys } from "../world.ts";
import { readJson, startTreeWorld, type TreeWorld } from "./tree-world.ts";

/** Returns the content of all files of a folder, by name. */
function readFolder(folder: string): Record<string, string> {
  const files = fs.readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();
  return Object.fromEntries(
    files
      .map((file) => [file, path.join(folder, file)] as const)
      .filter(([, file]) => fs.statSync(file).isFile())
      .map(([name, file]) => [name, fs.readFileSync(file, "base64")]),
  );
}

describe("proofs from hash tiles", () => {
  let world: TreeWorld;
  let directory: string;
  let heads: string[];
  let folder: string;
  // biome-ignore lint/suspicious/noExplicitAny: events as the command line lists them
  let events: any[];

  const withTiles = (tilesDirectory = directory) => ({ ...world.env, AUDIT_TILES_DIR: tilesDirectory });

  /** Appends readable and unreadable events: both are leaves. */
  async function appendEvents(count: number): Promise<void> {
    const client = connectEventStore(world.env.EVENTSTORE_URL ?? "", "test");
    const metadata = createStoredMetadata();
    for (let start = 0; start < count; start += 500) {
      const id = randomUUID();
      const batch = Array.from({ length: Math.min(500, count - start) }, (_, index) =>
        jsonEvent({ id: randomUUID(), type: "SampleTaken", data: { sampleId: id, index }, metadata }),
      );
      await client.appendToStream(`laboratory-${id}`, batch);
    }
    await client.dispose();
  }

  async function withPublisher<T>(use: (options: Parameters<typeof publishTreeHead>[0]) => Promise<T>): Promise<T> {
    const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], world.env));
    const client = connectEventStore(world.env.EVENTSTORE_URL ?? "", "test");
    const context = createTestOperatorContext();
    const { signal } = new AbortController();
    try {
      return await use({ log: createPlainLog(client), client, signer, context, signal });
    } finally {
      await client.dispose();
    }
  }

  const prove = async (args: string[], env: NodeJS.ProcessEnv) => {
    const { code, output, errorLines } = await world.run(args, env);
    // On a busy machine, commands report their progress.
    return { code, output, errorLines: errorLines.filter((line) => !line.includes(" % of the log")) };
  };
  const proveEvent = (event: { id: string; position: string }, head: string, env: NodeJS.ProcessEnv) =>
    prove(["prove-inclusion", "--event", event.id, "--position", event.position, "--head", head], env);
  const proveHeads = (from: string, to: string, env: NodeJS.ProcessEnv, ...args: string[]) =>
    prove(["prove-consistency", "--from", from, "--to", to, ...args], env);

  before(async () => {
    world = await startTreeWorld();
    directory = makeTestRoot();
    const { clinicId } = await createClinic(world.log);
    heads = [await world.publishHead()];
    for (const count of [200, 300, 40]) {
      await appendEvents(count);
      heads.push(await world.publishHead());
    }
    const { output } = await world.run(["events", "--clinic", clinicId, "--json"]);
    events = output
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    // The heads were published without tiles, as by a process of another release or without the setting.
    const { code, errorLines } = await world.run(["tree-head"], withTiles());
    expect(code, errorLines.join()).to.equal(0);
    folder = path.join(directory, readJson(heads[0] ?? "").treeHead.treeId);
  });
  after(() => world.stop());

  it("proofs from tiles equal proofs from the whole log, for each pair of tree heads and for events", async () => {
    for (const [index, from] of heads.entries())
      for (const to of heads.slice(index)) {
        const proof = await proveHeads(from, to, withTiles());
        expect(proof)
          .to.deep.equal(await proveHeads(from, to, world.env))
          .and.deep.include({ code: 0, errorLines: [] });
      }
    for (const event of events.slice(0, 3))
      for (const head of heads) {
        const proof = await proveEvent(event, head, withTiles());
        expect(proof)
          .to.deep.equal(await proveEvent(event, head, world.env))
          .and.deep.include({ code: 0, errorLines: [] });
      }
  });

  it("a consistency proof from tiles reads no log, and `--read-log` detects a changed log", async () => {
    const emptyLog = await startOwnLog();
    const env = { ...withTiles(), EVENTSTORE_URL: emptyLog.eventstoreUrl };
    const [from, to] = [heads[0] ?? "", heads[2] ?? ""];
    expect(await proveHeads(from, to, env)).to.deep.equal(await proveHeads(from, to, world.env));
    const { code, errorLines } = await proveHeads(from, to, env, "--read-log");
    expect([code, errorLines.length]).to.deep.equal([3, 1]);
    expect(errorLines[0]).to.contain("the event log does not contain the");
    await emptyLog.stop();
  });

  it("an event at another position, or that no tree contains, has no proof from tiles", async () => {
    const { id } = events[0];
    const { code, errorLines } = await proveEvent({ id, position: events[1].position }, heads[3] ?? "", withTiles());
    expect([code, errorLines.length]).to.deep.equal([3, 1]);
    const { clinicId } = await createClinic(world.log);
    const event = await world.log.readLast(`clinic-${clinicId}`);
    const newEvent = { id: event?.id ?? "", position: String(event?.position) };
    expect((await proveEvent(newEvent, heads[3] ?? "", withTiles())).code).to.equal(3);
  });

  it("with any damaged or missing file, proofs are correct, and one line names the folder", async () => {
    const [from, to, event] = [heads[1] ?? "", heads[3] ?? "", events[0]];
    const proofs = [await proveHeads(from, to, world.env), await proveEvent(event, to, world.env)];
    let problemCount = 0;
    for (const file of Object.keys(readFolder(folder))) {
      for (const damage of ["missing", "changed", "truncated"] as const) {
        const damaged = path.join(makeTestRoot(), path.basename(folder));
        fs.cpSync(folder, damaged, { recursive: true });
        const name = path.join(damaged, file);
        const bytes = fs.readFileSync(name);
        if (damage === "missing") fs.rmSync(name);
        else if (damage === "truncated") fs.truncateSync(name, bytes.length >> 1);
        else fs.writeFileSync(name, Buffer.from(bytes.map((byte) => byte ^ 1)));
        const env = withTiles(path.dirname(damaged));
        for (const [index, proof] of [await proveHeads(from, to, env), await proveEvent(event, to, env)].entries()) {
          expect(proof.output, `${file} ${damage}`).to.equal(proofs[index]?.output);
          expect(proof.errorLines.length, `${file} ${damage}`).to.be.lessThan(2);
          problemCount += proof.errorLines.length;
          for (const line of proof.errorLines) expect(line).to.contain(`the tiles in ${damaged}`);
        }
      }
    }
    expect(problemCount).to.be.greaterThan(5);
  });

  it("several processes that write at once leave the same files as one", async () => {
    const together = makeTestRoot();
    await withPublisher((options) =>
      Promise.all([1, 2, 3, 4].map(() => writeTiles({ ...options, directory: together }))),
    );
    const alone = makeTestRoot();
    await withPublisher((options) => writeTiles({ ...options, directory: alone }));
    const [left, right] = [together, alone].map((parent) => readFolder(path.join(parent, path.basename(folder))));
    expect(left).to.include(right);
    expect(Object.keys(left ?? {}).filter((file) => file.includes(".part-"))).to.deep.equal([]);
  });

  it("after the restore of an older log, tiles of lost events are replaced", async () => {
    const restored = makeTestRoot();
    const restoredFolder = path.join(restored, path.basename(folder));
    const { treeId, size } = readJson(heads[1] ?? "").treeHead;
    fs.cpSync(folder, restoredFolder, { recursive: true });
    const edge = await TileEdge.open(
      restoredFolder,
      new TiledTree(folder, readJson(heads[3] ?? "").treeHead.size),
      size,
    );
    while (edge.size < 1_000) await edge.append(hashLeaf(`lost ${edge.size}`), BigInt(edge.size));
    await edge.writePartialTiles();
    await edge.close();
    const root = (await new TiledTree(restoredFolder, 1_000).computeRoot(0, 1_000)).toString("hex");
    const reference = await proveHeads(heads[0] ?? "", heads[3] ?? "", world.env);
    await withPublisher(async (options) => {
      const checkpoint = await formatCheckpoint({ treeId, size: 1_000, root }, options.signer);
      fs.writeFileSync(toCheckpointFile(restoredFolder), checkpoint);
      const before = await proveHeads(heads[0] ?? "", heads[3] ?? "", withTiles(restored));
      expect(before).to.include({ code: 0, output: reference.output });
      expect(before.errorLines).to.have.lengthOf(1);
      await writeTiles({ ...options, directory: restored });
    });
    // The file of positions keeps entries after the last leaf, which no proof reads.
    const { positions, ...files } = readFolder(folder);
    const restoredFiles = readFolder(restoredFolder);
    expect(restoredFiles).to.include(files);
    expect(restoredFiles.positions?.startsWith(positions?.replace(/=+$/, "") ?? "missing")).to.equal(true);
    expect(await proveHeads(heads[0] ?? "", heads[3] ?? "", withTiles(restored))).to.deep.equal(reference);
  });

  it("the tiles of a copied log, which has a new tree, do not change those of the original", async () => {
    const copy = await startOwnLog();
    const client = connectEventStore(copy.eventstoreUrl, "test");
    await createClinic(createPlainLog(client));
    const files = readFolder(folder);
    const env = { ...withTiles(), EVENTSTORE_URL: copy.eventstoreUrl };
    expect((await world.run(["tree-head", "--new-tree"], env)).code).to.equal(0);
    expect(fs.readdirSync(directory)).to.have.lengthOf(2);
    expect(readFolder(folder)).to.deep.equal(files);
    await client.dispose();
    await copy.stop();
  });

  it("after a kill in the middle of writing, the next process completes the tiles", async () => {
    await appendEvents(8_000);
    await withPublisher(async (options) => {
      while (!(await publishTreeHead({ ...options, maxNewLeaves: 3_000 })).isComplete);
    });
    const killed = makeTestRoot();
    const killedFolder = path.join(killed, path.basename(folder));
    const program = fileURLToPath(new URL("../../../../command/audit/cli/main.ts", import.meta.url));
    for (const tileCount of [3, 14]) {
      const env = { ...process.env, ...withTiles(killed) };
      const child: ChildProcess = spawn(process.execPath, ["--import", "tsx", program, "tree-head"], {
        env,
        stdio: "ignore",
      });
      const ended = once(child, "exit");
      const tile = path.join(killedFolder, "tile", "0", String(tileCount).padStart(3, "0"));
      await eventually("a tile", async () => fs.existsSync(tile));
      child.kill("SIGKILL");
      expect((await ended)[1]).to.equal("SIGKILL");
    }
    const clean = makeTestRoot();
    await withPublisher(async (options) => {
      await writeTiles({ ...options, directory: killed });
      await writeTiles({ ...options, directory: clean });
    });
    expect(readFolder(killedFolder)).to.include(readFolder(path.join(clean, path.basename(folder))));
  }).timeout(120_000);

  it("tiles are written from the start of the log although the key of an earlier tree head was removed", async () => {
    const ownLog = await startOwnLog();
    const client = connectEventStore(ownLog.eventstoreUrl, "test");
    try {
      const [formerKeys, keys] = [JSON.parse(await createSigningKeys("former")), JSON.parse(await createSigningKeys())];
      const createSigner = (...jwks: unknown[]) =>
        createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], { AUDIT_SIGNING_KEYS: JSON.stringify({ keys: jwks }) }));
      const signers = [await createSigner(...formerKeys.keys), await createSigner(...keys.keys, ...formerKeys.keys)];
      const options = { log: createPlainLog(client), client, signal: new AbortController().signal };
      let size = 0;
      for (const signer of signers) {
        await createClinic(options.log);
        const { head } = await publishTreeHead({ ...options, signer, context: createTestOperatorContext() });
        size = head?.treeHead.size ?? 0;
      }
      const parent = makeTestRoot();
      await writeTiles({ ...options, signer: await createSigner(...keys.keys), directory: parent });
      const [treeId = ""] = fs.readdirSync(parent);
      expect((await TiledTree.open(path.join(parent, treeId)))?.size)
        .to.equal(size)
        .and.above(0);
    } finally {
      await client.dispose();
      await ownLog.stop();
    }
  });

  it("a folder that cannot be written is reported in one line, and the tree head is published", async () => {
    const file = world.writeFile("not a folder");
    const { code, errorLines } = await world.run(["tree-head"], withTiles(file));
    expect([code, errorLines.length]).to.deep.equal([2, 1]);
    expect(errorLines[0]).to.contain("AUDIT_TILES_DIR cannot be written").and.contain(file);
  });

  it("the audit service writes the tiles of new tree heads, and proves events from them", async () => {
    const tilesDirectory = makeTestRoot();
    const ownWorld = await startTreeWorld({ AUDIT_TREE_HEAD_INTERVAL_MS: "20", AUDIT_TILES_DIR: tilesDirectory });
    try {
      const { clinicId } = await createClinic(ownWorld.log);
      const event = await ownWorld.log.readLast(`clinic-${clinicId}`);
      const auditor = await ownWorld.registerAuditor([clinicId]);
      const checkpoint = await eventually("a checkpoint of the event", async () => {
        const [treeId] = fs.readdirSync(tilesDirectory);
        const tree = treeId === undefined ? undefined : await TiledTree.open(path.join(tilesDirectory, treeId));
        const { status, body } = await auditor.request("/audit/v1/tree-head");
        const isCovered = status === 200 && BigInt(body.treeHead.logPosition) >= (event?.position ?? 0n);
        return isCovered && tree && tree.size >= body.treeHead.size && body.treeHead;
      });
      const query = `position=${event?.position}&size=${checkpoint.size}`;
      const { text } = await auditor.request(`/audit/v1/inclusion-proof?${query}`);
      const file = ownWorld.writeFile(text);
      const { code } = await ownWorld.run(["verify-proof", file, "--key", ownWorld.keyFile], {});
      expect(code).to.equal(0);
    } finally {
      await ownWorld.stop();
    }
  });
});
