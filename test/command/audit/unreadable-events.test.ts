import { randomUUID } from "node:crypto";
import fs from "node:fs";
import { expect } from "chai";
import { readLastEvent } from "../../../command/audit/log/read-stream.ts";
import type { Disclosure } from "../../../command/disclosure/collect-disclosure.ts";
import { appendEvents } from "../../../shared/eventstore/append.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";
import { runClinic } from "../cli/terminal.ts";
import { readJson, type TestAuditor, useAuditWorld } from "./world.ts";

/** Bytes that are neither JSON nor UTF-8, for an event that claims to contain JSON. */
const DAMAGED_BYTES = Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x00]);

describe("one event that this release cannot read", function () {
  this.timeout(60_000);
  const { world, history, auditor: otherAuditor } = useAuditWorld();
  let auditor: TestAuditor;
  let firstHead: string;

  before(async () => {
    await otherAuditor.request(`/audit/v1/events?customer=${history.customerId}`);
    auditor = await world.registerAuditor(null);
    firstHead = await world.publishHead();
    const { clinicId, animalId, customerId, stream } = history;
    await append(`clinic-${clinicId}`, "ClinicPainted", {});
    await append(`auditor-${otherAuditor.auditorId}`, "AuditorPainted", {});
    await append(
      `customer-${customerId}`,
      "CustomerDetailsChanged",
      {},
      { ...createStoredMetadata(), schemaVersion: 99 },
    );
    await append(`animal-${animalId}`, "AnimalWeighed", DAMAGED_BYTES);
    await append(stream, "AppointmentConfirmed", DAMAGED_BYTES, DAMAGED_BYTES);
    await append(`auditAccess-${randomUUID()}`, "AuditAccessed", { asked: { stream: 7 } });
    await append(`appointment-${randomUUID()}`, "AppointmentRequested", DAMAGED_BYTES, DAMAGED_BYTES);
    await append("laboratory", "Sample", DAMAGED_BYTES, DAMAGED_BYTES);
  });

  /** Appends an event at the end of a stream without validation. */
  async function append(
    stream: string,
    type: string,
    data: unknown,
    metadata: unknown = { ...createStoredMetadata(), clinicId: history.clinicId },
  ): Promise<void> {
    const toBytes = (value: unknown) => (value instanceof Buffer ? value : Buffer.from(JSON.stringify(value)));
    const event = { id: randomUUID(), type, contentType: "application/json" };
    const last = await readLastEvent(world.client, stream);
    const bytes = { data: toBytes(data), metadata: toBytes(metadata) };
    await appendEvents(world.client, stream, BigInt(last?.auditEvent.revision ?? -1), [{ ...event, ...bytes }], 10_000);
  }

  const list = async (query: string) => {
    const { status, lines, end } = await auditor.request(`/audit/v1/${query}`);
    expect([query, status]).to.deep.equal([query, 200]);
    expect(end, query).to.include({ count: lines.length });
    return lines;
  };

  it("every list of events contains all other events, and the event with its problem", async () => {
    const { clinicId, customerId, animalId, appointmentId, stream } = history;
    for (const subject of [`clinic=${clinicId}`, `customer=${customerId}`, `animal=${animalId}`]) {
      const events = await list(`events?${subject}`);
      expect(events.some(({ type }) => type === "AppointmentCancelled")).to.equal(true);
      expect(events.some(({ problem }) => problem !== undefined)).to.equal(true);
    }
    for (const subject of [`appointment=${appointmentId}`, `stream=${stream}`])
      expect((await list(`events?${subject}`)).map(({ problem }) => problem === undefined)).to.deep.equal([
        ...[true, true, true],
        false,
      ]);
    const { status, lines } = await auditor.request(`/audit/v1/events?clinic=${clinicId}&order=newest`);
    expect([status, lines.at(-1).type]).to.deep.equal([200, "ClinicRegistered"]);
  });

  it("the events of a day are listed in the clinic's time zone, although the clinic's stream is unreadable", async () => {
    const events = await list(`events?clinic=${history.clinicId}&day=2026-05-04`);
    expect(events.map(({ type }) => type)).to.include("AppointmentConfirmed");
  });

  it("the list of accesses is complete, although the stream of one auditor is unreadable", async () => {
    for (const subject of [`clinic=${history.clinicId}`, `customer=${history.customerId}`]) {
      const accesses = await list(`accesses?${subject}`);
      expect(accesses.filter(({ action }) => action === "events").length, subject).to.be.at.least(1);
    }
  });

  it("a replay shows the states before the event, and the problem from the event on", async () => {
    await append(history.stream, "AppointmentConfirmed", { appointmentId: history.appointmentId });
    const steps = await list(`replay?stream=${history.stream}`);
    expect(steps.map(({ state, problem }) => [state?.status, problem !== undefined])).to.deep.equal([
      ["requested", false],
      ["confirmed", false],
      ["cancelled", false],
      [undefined, true],
      [undefined, true],
    ]);
    const { code, output } = await world.run(["replay", history.stream, "--all"]);
    expect([code, output.match(/cannot be read at revision 3/g)?.length]).to.deep.equal([0, 2]);
    const { status } = await auditor.request(`/audit/v1/state?stream=${history.stream}`);
    expect(status).to.equal(409);
    expect((await auditor.request(`/audit/v1/state?stream=${history.stream}&at=2`)).body.state.status).to.equal(
      "cancelled",
    );
  });

  it("an export of the clinic contains the event, and is verified", async () => {
    const file = world.nameFile();
    const exported = await world.run(["export", "--clinic", history.clinicId, "--out", file, "--actor", "ada"]);
    expect(exported.errorLines).to.deep.equal([]);
    const verified = await world.run(["verify", file, "--key", world.keyFile], {});
    expect(verified.errorLines).to.deep.equal([]);
    const { status, text } = await auditor.request(`/audit/v1/export?clinic=${history.clinicId}`);
    expect([status, text.includes('"manifest"')]).to.deep.equal([200, true]);
    for (const type of ["ClinicPainted", "AnimalWeighed", "AppointmentCancelled"])
      expect(fs.readFileSync(file, "utf8")).to.contain(type);
  });

  it("a disclosure contains all other data of the customer, and names the event that it lacks", async () => {
    const { clinicId, customerId, animalId, stream } = history;
    const output = world.nameFile();
    const ids = ["--clinic", clinicId, "--customer", customerId];
    const { code, errorLines } = await runClinic(["customer", "disclose", ...ids, "--out", output, "--actor", "ada"], {
      env: { ...world.env, DATABASE_URL: world.database.urls.projection },
    });
    expect([code, errorLines]).to.deep.equal([0, []]);
    const disclosure: Disclosure = readJson(output);
    expect(disclosure.clinic.timezone).to.equal("Europe/Istanbul");
    expect(disclosure.customer.fullName).to.equal("Ada Yilmaz");
    expect(disclosure.animals.map(({ name }) => name)).to.deep.equal(["Pamuk"]);
    expect(disclosure.appointments).to.have.length(1);
    expect(disclosure.accesses.some(({ actor }) => actor.type === "auditor")).to.equal(true);
    const namedEvents = disclosure.limits.flatMap((limit) => /^Revision (\d+ of \S+) is not/.exec(limit)?.[1] ?? []);
    expect(namedEvents).to.have.members([`1 of customer-${customerId}`, `1 of animal-${animalId}`, `3 of ${stream}`]);
  });

  it("tree heads and proofs continue, also after an unreadable tree head", async () => {
    const secondHead = await world.publishHead();
    await append("auditTree-heads", "TreeHeadPublished", createStoredMetadata());
    const { status, body } = await auditor.request("/audit/v1/tree-head");
    expect([status, body.treeHead.size]).to.deep.equal([200, readJson(secondHead).treeHead.size]);
    const thirdHead = await world.publishHead();
    const [event] = await list(`events?stream=${history.stream}`);
    const unreadable = (await list(`events?animal=${history.animalId}`)).find(({ problem }) => problem !== undefined);
    for (const { id } of [event, unreadable]) {
      const proof = await world.run(["prove-inclusion", "--event", id, "--head", thirdHead, "--actor", "ada"]);
      expect(proof.errorLines).to.deep.equal([]);
      const proofFile = world.writeFile(proof.output);
      expect((await world.run(["verify-proof", proofFile, "--key", world.keyFile], {})).code).to.equal(0);
    }
    const extension = await world.run(["prove-consistency", "--from", firstHead, "--to", thirdHead]);
    expect(extension.errorLines).to.deep.equal([]);
    const verdict = await world.run(["verify-proof", world.writeFile(extension.output), "--key", world.keyFile], {});
    expect(verdict.code).to.equal(0);
  });
});
