import { randomUUID } from "node:crypto";
import fs from "node:fs";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import pg from "pg";
import { createAuditSigner } from "../../../../command/audit/export/signing.ts";
import { publishTreeHead } from "../../../../command/audit/tree/publish-tree-head.ts";
import { readLastHead, TREE_HEAD_STREAM } from "../../../../command/audit/tree/published-heads.ts";
import { registerCustomer } from "../../../../command/operations/people-operations.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { createEventLog } from "../../../../shared/eventstore/log.ts";
import { readConfig } from "../../../../shared/runtime/config.ts";
import { createTestDataKeys } from "../../../support/data-keys.ts";
import { eventually } from "../../../support/eventually.ts";
import { startOwnLog } from "../../../support/own-log.ts";
import { createClinic, createTestOperatorContext } from "../../../support/partner.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { createStoredMetadata } from "../../../support/stored-metadata.ts";
import { createSigningKeys } from "../world.ts";
import { readJson, startTreeWorld, type TreeWorld } from "./tree-world.ts";

describe("tree heads", () => {
  let world: TreeWorld;

  before(async () => {
    world = await startTreeWorld();
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
    const lastHead = await readLastHead(world.log);
    expect(lastHead?.data).to.include({ size: treeHead.size, treeId: treeHead.treeId });
    expect(lastHead?.stream).to.equal(TREE_HEAD_STREAM);
    const verdict = await world.run(["verify-proof", file, "--key", world.keyFile, "--json"], {});
    expect(JSON.parse(verdict.output)).to.deep.equal({ ok: true, kind: "tree-head", treeHead });
    expect(Object.keys(treeHead).sort()).to.deep.equal(["at", "format", "logPosition", "root", "size", "treeId"]);
  });

  it("without new events, the last tree head is returned again; tree heads alone are not new events", async () => {
    const firstFile = await world.publishHead();
    const revision = (await readLastHead(world.log))?.revision;
    const secondFile = await world.publishHead();
    expect(readJson(secondFile)).to.deep.equal(readJson(firstFile));
    expect((await readLastHead(world.log))?.revision).to.equal(revision);
  });

  it("of two concurrent publications, one is appended, and both return a tree head that covers the log", async () => {
    const { clinicId } = await createClinic(world.log);
    const lastPosition = (await world.log.readLast(`clinic-${clinicId}`))?.position ?? 0n;
    const revision = (await readLastHead(world.log))?.revision ?? 0n;
    const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], world.env));
    const client = connectEventStore(world.env.EVENTSTORE_URL ?? "", "test");
    const { signal } = new AbortController();
    const options = {
      log: createPlainLog(client),
      client,
      signer,
      context: createTestOperatorContext(),
      signal,
    };
    const publications = await Promise.all([publishTreeHead(options), publishTreeHead(options)]);
    await client.dispose();
    expect(publications.map(({ isNew }) => isNew).sort()).to.deep.equal([false, true]);
    for (const { head } of publications) expect(BigInt(head?.treeHead.logPosition ?? 0) >= lastPosition).to.equal(true);
    expect((await readLastHead(world.log))?.revision).to.equal(revision + 1n);
  });

  it("a long log is published in parts, so that an interruption loses only a part of the work", async () => {
    const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], world.env));
    const client = connectEventStore(world.env.EVENTSTORE_URL ?? "", "test");
    const { signal } = new AbortController();
    const context = createTestOperatorContext();
    const options = { log: createEventLog(client), client, signer, context, signal, maxNewLeaves: 4 };
    const first = await publishTreeHead({ ...options, isNewTree: true });
    const second = await publishTreeHead(options);
    await client.dispose();
    expect(
      [first, second].map(({ head, isNew, isComplete }) => [head?.treeHead.size, isNew, isComplete]),
    ).to.deep.equal([
      [4, true, false],
      [8, true, false],
    ]);
    const firstFile = world.writeFile(JSON.stringify(first.head));
    const args = ["prove-consistency", "--from", firstFile, "--to", await world.publishHead()];
    const { code, errorLines } = await world.run(args);
    expect(code, errorLines.join()).to.equal(0);
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
    expect(errorLines[0]).to.contain("the last tree head is not verified: the signature was made by an untrusted key");
  });

  it("a tree does not continue in a different log, where `--new-tree` starts a new tree", async () => {
    const treeHeadEvent = await readLastHead(world.log);
    if (!treeHeadEvent) throw new Error("no tree head is published");
    const otherLog = await startOwnLog();
    const client = connectEventStore(otherLog.eventstoreUrl, "test");
    try {
      const log = createPlainLog(client);
      await createClinic(log);
      const { id, type, data, metadata } = treeHeadEvent;
      await log.append(TREE_HEAD_STREAM, -1n, [{ id, event: { type, data }, metadata }]);
      const env = { ...world.env, EVENTSTORE_URL: otherLog.eventstoreUrl };
      const refusal = await world.run(["tree-head"], env);
      expect([refusal.code, refusal.errorLines.length]).to.deep.equal([3, 1]);
      expect(refusal.errorLines[0]).to.contain("belongs to a different event log").and.contain("--new-tree");
      const { code, output } = await world.run(["tree-head", "--new-tree"], env);
      expect(code).to.equal(0);
      const { treeId } = JSON.parse(output).treeHead;
      expect(treeId).not.to.equal(data.treeId);
      await createClinic(log);
      expect(JSON.parse((await world.run(["tree-head"], env)).output).treeHead.treeId).to.equal(treeId);
    } finally {
      await client.dispose();
      await otherLog.stop();
    }
  });

  it("the audit service publishes tree heads at the interval, as long as there are new events", async () => {
    const ownWorld = await startTreeWorld({ AUDIT_TREE_HEAD_INTERVAL_MS: "20" });
    try {
      const readSize = async () => (await readLastHead(ownWorld.log))?.data.size;
      await createClinic(ownWorld.log);
      const firstSize = await eventually("the first tree head", readSize);
      await createClinic(ownWorld.log);
      await eventually("a tree head with more events", async () => ((await readSize()) ?? 0) > firstSize);
      await eventually("the metric of publications", async () =>
        /audit_tree_head_publications_total\{outcome="published"\} [2-9]/.test(
          await (await fetch(`${ownWorld.url}/metrics`)).text(),
        ),
      );
      const { metadata } = (await readLastHead(ownWorld.log)) ?? {};
      expect(metadata?.actor).to.deep.equal({ type: "system", id: "audit" });
    } finally {
      await ownWorld.stop();
    }
  });
});

describe("proofs", () => {
  let world: TreeWorld;
  let clinicId: string;
  let otherClinicId: string;
  let earlierFile: string;
  let laterFile: string;
  // biome-ignore lint/suspicious/noExplicitAny: an event line of an export
  let event: any;

  before(async () => {
    world = await startTreeWorld();
    ({ clinicId } = await createClinic(world.log));
    earlierFile = await world.publishHead();
    otherClinicId = (await createClinic(world.log)).clinicId;
    laterFile = await world.publishHead();
    const exportFile = world.nameFile();
    await world.run(["export", "--clinic", clinicId, "--out", exportFile]);
    event = JSON.parse(fs.readFileSync(exportFile, "utf8").split("\n")[3] ?? "").event;
  });
  after(() => world.stop());

  const verify = async (file: string, ...args: string[]) => {
    const { code, output } = await world.run(["verify-proof", file, "--key", world.keyFile, "--json", ...args], {});
    return { code, ...JSON.parse(output) };
  };

  it("an inclusion proof of an exported event is verified offline, also against a tree head that the auditor holds", async () => {
    const file = world.nameFile();
    const args = ["prove-inclusion", "--event", event.id, "--actor", "ada"];
    const { code, errorLines } = await world.run([...args, "--head", earlierFile, "--out", file]);
    expect(code, errorLines.join()).to.equal(0);
    const proof = readJson(file);
    expect(proof.event).to.deep.equal(event);
    expect(await verify(file, "--head", earlierFile)).to.include({ code: 0, ok: true, kind: "inclusion-proof" });
    expect(await verify(file, "--head", laterFile)).to.include({ code: 3, fault: "unexpected_tree_head" });
    const { output } = await world.run(args);
    expect(await verify(world.writeFile(output), "--head", laterFile)).to.include({ code: 0 });
  });

  it("the access of an inclusion proof is recorded with the event's clinic", async () => {
    const auditor = await world.registerAuditor([clinicId]);
    await auditor.request(`/audit/v1/inclusion-proof?position=${event.position}`);
    const { output } = await world.run(["events", "--auditor", auditor.auditorId, "--json"]);
    const access = output
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line))
      .findLast(({ type }) => type === "AuditAccessed");
    expect(access.data).to.deep.include({ action: "prove-inclusion", clinicIds: [clinicId] });
  });

  it("an auditor gets a proof for an event of the auditor's clinic, which contains nothing else but hashes", async () => {
    const auditor = await world.registerAuditor([clinicId]);
    const { status, text } = await auditor.request(`/audit/v1/inclusion-proof?position=${event.position}`);
    expect(status).to.equal(200);
    const { event: provenEvent, path, head, index, format, ...others } = JSON.parse(text);
    expect(provenEvent).to.deep.equal(event);
    expect(path.join("")).to.match(/^[0-9a-f]+$/);
    expect([typeof index, typeof format, others]).to.deep.equal(["number", "string", {}]);
    expect(head).to.deep.equal(JSON.parse((await auditor.request("/audit/v1/tree-head")).text));
    expect(await verify(world.writeFile(text))).to.include({ code: 0, kind: "inclusion-proof" });
  });

  it("an auditor of another clinic gets no proof, as if the event did not exist", async () => {
    const stranger = await world.registerAuditor([otherClinicId]);
    const { status, body } = await stranger.request(`/audit/v1/inclusion-proof?position=${event.position}`);
    expect([status, body.error]).to.deep.equal([404, "event_not_found"]);
    const auditor = await world.registerAuditor(null);
    const noEvent = await auditor.request(`/audit/v1/inclusion-proof?position=${BigInt(event.position) + 1n}`);
    expect([noEvent.status, noEvent.body.error]).to.deep.equal([404, "event_not_found"]);
    const treeHeadPosition = (await readLastHead(world.log))?.position;
    const newEvent = await auditor.request(`/audit/v1/inclusion-proof?position=${treeHeadPosition}`);
    expect([newEvent.status, newEvent.body.error]).to.deep.equal([409, "event_not_in_tree"]);
  });

  it("a consistency proof connects two tree heads, offline and through the API", async () => {
    const file = world.nameFile();
    const { code, errorLines } = await world.run([
      ...["prove-consistency", "--from", earlierFile, "--to", laterFile, "--out", file],
    ]);
    expect(code, errorLines.join()).to.equal(0);
    const verdict = await verify(file, "--head", earlierFile, laterFile);
    expect(verdict).to.include({ code: 0, ok: true, kind: "consistency-proof" });
    const [from, to] = [earlierFile, laterFile].map((name) => readJson(name).treeHead.size);
    const auditor = await world.registerAuditor([otherClinicId]);
    const { text } = await auditor.request(`/audit/v1/consistency-proof?from=${from}&to=${to}`);
    expect(text).to.equal(fs.readFileSync(file, "utf8"));
    expect((await auditor.request(`/audit/v1/consistency-proof?from=${to}&to=${from}`)).status).to.equal(400);
    expect((await auditor.request(`/audit/v1/consistency-proof?from=${to + 1}`)).status).to.equal(404);
    const reversedRun = await world.run(["prove-consistency", "--from", laterFile, "--to", earlierFile]);
    expect([reversedRun.code, reversedRun.errorLines]).to.deep.equal([
      ...[3, ["audit: the first tree head is later than the second"]],
    ]);
  });

  it("a proof fails if the log no longer contains the events of a tree head", async () => {
    const changedLog = await startOwnLog();
    const client = connectEventStore(changedLog.eventstoreUrl, "test");
    try {
      const log = createPlainLog(client);
      for (let count = 0; count < 3; count += 1) await createClinic(log);
      const env = { ...world.env, EVENTSTORE_URL: changedLog.eventstoreUrl };
      const { code, errorLines } = await world.run(
        ["prove-consistency", "--from", earlierFile, "--to", laterFile],
        env,
      );
      expect([code, errorLines.length]).to.deep.equal([3, 1]);
      expect(errorLines[0]).to.contain(`the event log does not contain the`).and.contain("it was changed");
    } finally {
      await client.dispose();
      await changedLog.stop();
    }
  });

  it("after an erasure, earlier tree heads still prove the encrypted event and the log", async () => {
    const client = connectEventStore(world.env.EVENTSTORE_URL ?? "", "test");
    const pool = new pg.Pool({ connectionString: world.database.urls.command, max: 1 });
    try {
      const dataKeys = createTestDataKeys(pool);
      const log = createEventLog(client, { dataKeys });
      const customerId = randomUUID();
      const contact = { fullName: "Ana Kos", phone: null, email: null, city: null };
      await registerCustomer(log, { clinicId, customerId, ...contact }, createTestOperatorContext());
      const headFile = await world.publishHead();
      expect(await dataKeys.destroy({ type: "customer", id: customerId })).to.be.greaterThan(0);
      const registration = await log.readLast(`customer-${customerId}`);
      expect(registration?.data).not.to.include({ fullName: "Ana Kos" });
      const args = ["prove-inclusion", "--event", registration?.id ?? "", "--head", headFile];
      const { output } = await world.run(args);
      expect(output).to.contain('"encrypted":{').and.not.to.contain("Ana Kos");
      expect(await verify(world.writeFile(output), "--head", headFile)).to.include({ code: 0 });
      const consistency = await world.run(["prove-consistency", "--from", headFile, "--to", await world.publishHead()]);
      expect(await verify(world.writeFile(consistency.output))).to.include({ code: 0, kind: "consistency-proof" });
    } finally {
      await Promise.all([client.dispose(), pool.end()]);
    }
  });

  it("altered proofs are not verified", async () => {
    const { output } = await world.run(["prove-inclusion", "--event", event.id]);
    expect(await verify(world.writeFile(output.replace('"position":"', '"position":"1')))).to.include({
      code: 3,
      fault: "path_invalid",
    });
    expect(await verify(world.writeFile(` ${output}`))).to.include({ code: 3, fault: "not_canonical" });
    expect(await verify(world.writeFile("{}\n"))).to.include({ code: 3, fault: "not_a_proof" });
    const { code } = await world.run(["verify-proof", world.nameFile(), "--key", world.keyFile]);
    expect(code).to.equal(2);
  });

  it("events that only a newer release can read are leaves in the form of exports, and events of other programs are not", async () => {
    const client = connectEventStore(world.env.EVENTSTORE_URL ?? "", "test");
    try {
      const metadata = { ...createStoredMetadata(), clinicId, actor: { type: "robot", id: "r2" }, reviewedBy: "grace" };
      const [id, foreignId] = [randomUUID(), randomUUID()];
      const data = { clinicId, sampleId: id };
      await client.appendToStream(`laboratory-${id}`, jsonEvent({ id, type: "SampleTaken", data, metadata }));
      await client.appendToStream("billing-1", jsonEvent({ id: foreignId, type: "InvoiceSent", data: { clinicId } }));
      const headFile = await world.publishHead();
      const file = world.writeFile((await world.run(["prove-inclusion", "--event", id, "--head", headFile])).output);
      expect(await verify(file, "--head", headFile)).to.include({ code: 0, kind: "inclusion-proof" });
      const provenEvent = readJson(file).event;
      expect(provenEvent).to.deep.include({ actor: metadata.actor, metadata: { reviewedBy: "grace" } });
      const exportFile = world.nameFile();
      await world.run(["export", "--clinic", clinicId, "--out", exportFile]);
      const exportedEvents = fs
        .readFileSync(exportFile, "utf8")
        .split("\n")
        .filter((line) => line.includes(id))
        .map((line) => JSON.parse(line).event);
      expect(exportedEvents).to.deep.equal([{ ...provenEvent, problem: exportedEvents[0].problem }]);
      const auditor = await world.registerAuditor([clinicId]);
      const { text } = await auditor.request(`/audit/v1/inclusion-proof?position=${provenEvent.position}`);
      expect(JSON.parse(text).event).to.deep.equal(provenEvent);
      expect((await world.run(["prove-inclusion", "--event", foreignId])).code).to.equal(3);
    } finally {
      await client.dispose();
    }
  });

  it("an event that the tree does not contain has no proof, and a file without a tree head is refused", async () => {
    const { code, errorLines } = await world.run(["prove-inclusion", "--event", randomUUID()]);
    expect([code, errorLines.length]).to.deep.equal([3, 1]);
    const file = world.writeFile("{}");
    const wrongHeadRun = await world.run(["prove-inclusion", "--event", event.id, "--head", file]);
    expect([wrongHeadRun.code, wrongHeadRun.errorLines.length]).to.deep.equal([2, 1]);
  });
});
