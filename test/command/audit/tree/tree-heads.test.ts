import fs from "node:fs";
import { expect } from "chai";
import { createAuditSigner } from "../../../../command/audit/export/signing.ts";
import { publishTreeHead } from "../../../../command/audit/tree/publish-tree-head.ts";
import { TREE_HEAD_STREAM } from "../../../../command/audit/tree/published-heads.ts";
import type { AuditTreeEvent } from "../../../../shared/domain/events/audit.ts";
import type { EventLog } from "../../../../shared/eventstore/log.ts";
import { readConfig } from "../../../../shared/runtime/config.ts";
import { eventually } from "../../../support/eventually.ts";
import { parseMetrics, readSample } from "../../../support/metrics.ts";
import { createClinic, createTestOperatorContext } from "../../../support/partner.ts";
import { type AuditWorld, createSigningKeys, readJson, startAuditWorld } from "../world.ts";

describe("tree heads", () => {
  let world: AuditWorld;

  before(async () => {
    world = await startAuditWorld();
  });
  after(() => world.stop());

  it("the command `tree-head` reports a log without events in one line", async () => {
    const { code, errorLines } = await world.run(["tree-head"]);
    expect([code, errorLines]).to.deep.equal([
      3,
      ["audit: the event log contains no events, so there is no tree head"],
    ]);
  });

  it("a published tree head counts all events, and is verified with the key set", async () => {
    await createClinic(world.log);
    const file = world.nameFile();
    const { code, output } = await world.run(["tree-head", "--out", file]);
    expect([code, output])
      .to.deep.include(0)
      .and.satisfy(([, text]: string[]) => text?.includes(`verify-proof ${file}`));
    const { treeHead } = readJson(file);
    const lastHead = await world.log.readLast<AuditTreeEvent>(TREE_HEAD_STREAM);
    expect(lastHead?.data).to.include({ size: treeHead.size, treeId: treeHead.treeId });
    expect(lastHead?.stream).to.equal(TREE_HEAD_STREAM);
    const verdict = await world.run(["verify-proof", file, "--key", world.keyFile, "--json"], {});
    expect(JSON.parse(verdict.output)).to.deep.equal({ ok: true, kind: "tree-head", treeHead });
    expect(Object.keys(treeHead).sort()).to.deep.equal(["at", "format", "logPosition", "root", "size", "treeId"]);
  });

  it("without new events, the last tree head is returned again; tree heads alone are not new events", async () => {
    const firstFile = await world.publishHead();
    const revision = (await world.log.readLast<AuditTreeEvent>(TREE_HEAD_STREAM))?.revision;
    const secondFile = await world.publishHead();
    expect(readJson(secondFile)).to.deep.equal(readJson(firstFile));
    expect((await world.log.readLast<AuditTreeEvent>(TREE_HEAD_STREAM))?.revision).to.equal(revision);
  });

  it("of two concurrent publications, one is appended, and both return a tree head that covers the log", async () => {
    const { clinicId } = await createClinic(world.log);
    const lastPosition = (await world.log.readLast(`clinic-${clinicId}`))?.position ?? 0n;
    const revision = (await world.log.readLast<AuditTreeEvent>(TREE_HEAD_STREAM))?.revision ?? 0n;
    const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], world.env));
    const { signal } = new AbortController();
    const options = { ...world, signer, context: createTestOperatorContext(), signal };
    const publications = await Promise.all([publishTreeHead(options), publishTreeHead(options)]);
    expect(publications.map(({ isNew }) => isNew).sort()).to.deep.equal([false, true]);
    for (const { head } of publications) expect(BigInt(head?.treeHead.logPosition ?? 0) >= lastPosition).to.equal(true);
    expect((await world.log.readLast<AuditTreeEvent>(TREE_HEAD_STREAM))?.revision).to.equal(revision + 1n);
  });

  it("GET /audit/v1/tree-head returns the bytes of the last tree head, or of the head with a size, to every auditor", async () => {
    const firstFile = await world.publishHead();
    const otherClinicId = (await createClinic(world.log)).clinicId;
    const lastFile = await world.publishHead();
    const auditor = await world.registerAuditor([otherClinicId]);
    const { status, text } = await auditor.request("/audit/v1/tree-head");
    expect([status, text]).to.deep.equal([200, fs.readFileSync(lastFile, "utf8")]);
    const { size } = readJson(firstFile).treeHead;
    expect((await auditor.request(`/audit/v1/tree-head?size=${size}`)).text).to.equal(
      fs.readFileSync(firstFile, "utf8"),
    );
    expect((await auditor.request(`/audit/v1/tree-head?size=${size + 1}`)).body.error).to.equal("tree_head_not_found");
    expect((await auditor.request("/audit/v1/tree-head?size=0")).status).to.equal(400);
    expect((await fetch(`${world.url}/audit/v1/tree-head`)).status).to.equal(401);
  });

  it("a service with other keys does not continue the tree, because its last head may be forged", async () => {
    const env = { ...world.env, AUDIT_SIGNING_KEYS: await createSigningKeys() };
    const { code, errorLines } = await world.run(["tree-head"], env);
    expect([code, errorLines.length]).to.deep.equal([3, 1]);
    const { size } = (await world.log.readLast<AuditTreeEvent>(TREE_HEAD_STREAM))?.data ?? {};
    expect(errorLines[0]).to.contain(
      `the tree head of ${size} events is not verified: the signature was made by an untrusted key`,
    );
  });

  it("a publication starts a new tree even if another process extends the old tree at the same time", async () => {
    const { treeId } = readJson(await world.publishHead()).treeHead;
    const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], world.env));
    await createClinic(world.log);
    let appendCount = 0;
    const append: EventLog["append"] = async (...append) => {
      appendCount += 1;
      if (appendCount === 1) await world.publishHead();
      return world.log.append(...append);
    };
    const log = { ...world.log, append };
    const { signal } = new AbortController();
    const options = { ...world, log, signer, context: createTestOperatorContext(), signal, isNewTree: true };
    const { head, isNew } = await publishTreeHead(options);
    expect([appendCount, isNew]).to.deep.equal([2, true]);
    expect(head?.treeHead.treeId).not.to.equal(treeId);
  });

  it("a tree does not continue in a different log, where `--new-tree` starts a new tree", async () => {
    const treeHeadEvent = await world.log.readLast<AuditTreeEvent>(TREE_HEAD_STREAM);
    if (!treeHeadEvent) throw new Error("no tree head is published");
    const { AUDIT_SIGNING_KEYS = "" } = world.env;
    const otherWorld = await startAuditWorld({ AUDIT_SIGNING_KEYS });
    try {
      await createClinic(otherWorld.log);
      const { id, type, data, metadata } = treeHeadEvent;
      await otherWorld.log.append(TREE_HEAD_STREAM, -1n, [{ id, event: { type, data }, metadata }]);
      const refusal = await otherWorld.run(["tree-head"]);
      expect(refusal.code).to.equal(3);
      // On a busy machine, the command first reports its progress.
      expect(refusal.errorLines.at(-1)).to.contain("it is a different log").and.contain("--new-tree");
      const { code, output, errorLines } = await otherWorld.run(["tree-head", "--new-tree"]);
      expect(code, errorLines.join()).to.equal(0);
      const { treeId } = JSON.parse(output).treeHead;
      expect(treeId).not.to.equal(data.treeId);
      await createClinic(otherWorld.log);
      expect(JSON.parse((await otherWorld.run(["tree-head"])).output).treeHead.treeId).to.equal(treeId);
    } finally {
      await otherWorld.stop();
    }
  });

  it("the audit service verifies the index also if it publishes no tree heads", async () => {
    await eventually("the whole index was compared with the log", async () => {
      const { rows } = await world.pool.query("SELECT verified_at FROM audit.checkpoint");
      return rows[0].verified_at !== null;
    });
  });

  it("the audit service publishes tree heads at the interval, as long as there are new events, and counts differences", async () => {
    const ownWorld = await startAuditWorld({ AUDIT_TREE_HEAD_INTERVAL_MS: "20" });
    try {
      const readSize = async () => (await ownWorld.log.readLast<AuditTreeEvent>(TREE_HEAD_STREAM))?.data.size;
      await createClinic(ownWorld.log);
      const firstSize = await eventually("the first tree head", readSize);
      await createClinic(ownWorld.log);
      await eventually("a tree head with more events", async () => ((await readSize()) ?? 0) > firstSize);
      const awaitCount = (outcome: string, minimum: number) =>
        eventually(`publications with the outcome ${outcome}`, async () => {
          const metrics = parseMetrics(await (await fetch(`${ownWorld.url}/metrics`)).text());
          return (readSample(metrics, "audit_tree_head_publications_total", { outcome }) ?? 0) >= minimum;
        });
      await awaitCount("published", 2);
      await ownWorld.owner.query(
        "UPDATE audit.event SET actor = NULL; UPDATE audit.checkpoint SET compared_position = -1, compared_leaf_count = 0",
      );
      await awaitCount("different", 1);
      const { metadata } = (await ownWorld.log.readLast<AuditTreeEvent>(TREE_HEAD_STREAM)) ?? {};
      expect(metadata?.actor).to.deep.equal({ type: "system", id: "audit" });
    } finally {
      await ownWorld.stop();
    }
  });
});
