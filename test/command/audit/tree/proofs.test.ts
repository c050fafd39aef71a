import { randomUUID } from "node:crypto";
import fs from "node:fs";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import pg from "pg";
import { TREE_HEAD_STREAM } from "../../../../command/audit/tree/published-heads.ts";
import { registerCustomer } from "../../../../command/operations/customer-operations.ts";
import type { AuditTreeEvent } from "../../../../shared/domain/events/audit.ts";
import { createEventLog } from "../../../../shared/eventstore/log.ts";
import { createTestDataKeys } from "../../../support/data-keys.ts";
import { createClinic, createTestOperatorContext } from "../../../support/partner.ts";
import { createStoredMetadata } from "../../../support/stored-metadata.ts";
import { parseLines, readJson, startAuditWorld, useAuditWorld } from "../world.ts";

describe("proofs", () => {
  const { world, history, auditor } = useAuditWorld();
  let clinicId: string;
  let otherClinicId: string;
  let earlierFile: string;
  let laterFile: string;
  // biome-ignore lint/suspicious/noExplicitAny: an event line of an export
  let event: any;

  before(async () => {
    ({ clinicId } = history);
    earlierFile = await world.publishHead();
    otherClinicId = (await createClinic(world.log)).clinicId;
    laterFile = await world.publishHead();
    const exportFile = world.nameFile();
    await world.run(["export", "--clinic", clinicId, "--out", exportFile]);
    event = JSON.parse(fs.readFileSync(exportFile, "utf8").split("\n")[3] ?? "");
  });

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
    await auditor.request(`/audit/v1/inclusion-proof?position=${event.position}`);
    const { output } = await world.run(["events", "--auditor", auditor.auditorId, "--json"]);
    const access = parseLines(output).findLast(({ type }) => type === "AuditAccessed");
    expect(access.data).to.deep.include({ action: "prove-inclusion", clinicIds: [clinicId] });
  });

  it("an auditor gets a proof for an event of the auditor's clinic, which contains nothing else but hashes", async () => {
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
    const unlimited = await world.registerAuditor(null);
    const noEvent = await unlimited.request(`/audit/v1/inclusion-proof?position=${BigInt(event.position) + 1n}`);
    expect([noEvent.status, noEvent.body.error]).to.deep.equal([404, "event_not_found"]);
    const treeHeadPosition = (await world.log.readLast<AuditTreeEvent>(TREE_HEAD_STREAM))?.position;
    const newEvent = await unlimited.request(`/audit/v1/inclusion-proof?position=${treeHeadPosition}`);
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
    const { AUDIT_SIGNING_KEYS = "" } = world.env;
    const changedWorld = await startAuditWorld({ AUDIT_SIGNING_KEYS });
    try {
      for (let count = 0; count < 3; count += 1) await createClinic(changedWorld.log);
      const { code, errorLines } = await changedWorld.run([
        ...["prove-consistency", "--from", earlierFile, "--to", laterFile],
      ]);
      expect([code, errorLines.length]).to.deep.equal([3, 1]);
      expect(errorLines[0]).to.contain(`the event log does not contain the`).and.contain("it was changed");
    } finally {
      await changedWorld.stop();
    }
  });

  it("after an erasure, earlier tree heads still prove the encrypted event and the log", async () => {
    const pool = new pg.Pool({ connectionString: world.database.urls.command, max: 1 });
    try {
      const dataKeys = createTestDataKeys(pool);
      const log = createEventLog(world.client, { dataKeys });
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
      await pool.end();
    }
  });

  it("events that only a newer release can read are leaves in the form of exports, and events of other programs are not", async () => {
    const metadata = { ...createStoredMetadata(), clinicId, actor: { type: "robot", id: "r2" }, reviewedBy: "grace" };
    const [id, foreignId] = [randomUUID(), randomUUID()];
    const data = { clinicId, sampleId: id };
    await world.client.appendToStream(`laboratory-${id}`, jsonEvent({ id, type: "SampleTaken", data, metadata }));
    await world.client.appendToStream(
      "billing-1",
      jsonEvent({ id: foreignId, type: "InvoiceSent", data: { clinicId } }),
    );
    const headFile = await world.publishHead();
    const file = world.writeFile((await world.run(["prove-inclusion", "--event", id, "--head", headFile])).output);
    expect(await verify(file, "--head", headFile)).to.include({ code: 0, kind: "inclusion-proof" });
    const provenEvent = readJson(file).event;
    expect(provenEvent).to.deep.include({ actor: metadata.actor, metadata: { reviewedBy: "grace" } });
    const exportFile = world.nameFile();
    await world.run(["export", "--clinic", clinicId, "--out", exportFile]);
    const lines = fs.readFileSync(exportFile, "utf8").split("\n");
    const exportedEvents = lines.filter((line) => line.includes(id)).map((line) => JSON.parse(line));
    expect(exportedEvents).to.deep.equal([{ ...provenEvent, problem: exportedEvents[0].problem }]);
    const { text } = await auditor.request(`/audit/v1/inclusion-proof?position=${provenEvent.position}`);
    expect(JSON.parse(text).event).to.deep.equal(provenEvent);
    expect((await world.run(["prove-inclusion", "--event", foreignId])).code).to.equal(3);
  });

  it("an event that the tree does not contain has no proof, and a file that is missing or has no tree head is refused", async () => {
    const { code, errorLines } = await world.run(["prove-inclusion", "--event", randomUUID()]);
    expect([code, errorLines.length]).to.deep.equal([3, 1]);
    const file = world.writeFile("{}");
    const wrongHeadRun = await world.run(["prove-inclusion", "--event", event.id, "--head", file]);
    expect([wrongHeadRun.code, wrongHeadRun.errorLines.length]).to.deep.equal([2, 1]);
    expect((await world.run(["verify-proof", world.nameFile(), "--key", world.keyFile])).code).to.equal(2);
  });
});
