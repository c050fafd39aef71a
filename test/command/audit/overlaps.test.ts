import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import type { LogEvent } from "../../../command/audit/log/audit-event.ts";
import { checkOverlaps, type OverlapFinding } from "../../../command/audit/queries/find-overlaps.ts";
import { toNewEvent } from "../../../command/handling/handle.ts";
import { allocateResource, requestAppointment } from "../../../command/operations/appointment-operations.ts";
import { addResource } from "../../../command/operations/catalog-operations.ts";
import type { Reservation, ResourceDayEvent } from "../../../shared/domain/events/scheduling.ts";
import { createFixture } from "../../../shared/domain/partner/sandbox-fixture.ts";
import type { Instant } from "../../../shared/domain/time/rfc3339.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { useAuditWorld } from "./world.ts";

const toTime = (time: string) => `2027-03-01T${time}:00.000Z` as Instant;
const NOW = Date.parse(toTime("00:00"));

function reserve(startsAt: string, endsAt: string): Reservation {
  const times = { startsAt: toTime(startsAt), endsAt: toTime(endsAt), reservedAt: toTime("00:00") };
  return { reservationId: randomUUID(), holder: "appointment", holderId: randomUUID(), ...times, isOverbooked: false };
}

describe("the command `overlaps`", () => {
  const { world, history } = useAuditWorld();
  let resourceId: string;

  before(async () => {
    resourceId = await addRoom();
  });

  async function addRoom(): Promise<string> {
    const { clinicId, branchId } = history;
    const id = randomUUID();
    const room = { resourceId: id, clinicId, branchId, resourceType: "room", name: "Room", capacity: 1 };
    await addResource(world.log, { ...room, timezone: "UTC", metadata: {} }, createTestOperatorContext(NOW));
    return id;
  }
  async function allocate(from: string, until: string, overbook = false): Promise<void> {
    const { clinicId, branchId } = history;
    const [appointmentId, context] = [randomUUID(), createTestOperatorContext(NOW)];
    const appointment = { appointmentId, clinicId, branchId, animalId: null, scheduledAt: toTime(from) };
    await requestAppointment(world.log, appointment, context);
    const times = { allocationStart: toTime(from), allocationEnd: toTime(until) };
    const allocation = { clinicId, appointmentId, assignmentId: randomUUID(), resourceId, ...times, overbook };
    await allocateResource(world.log, allocation, context);
  }
  /** Appends two overlapping reservations of one place, which the protocol would never allow. */
  async function plant(room: string): Promise<Reservation[]> {
    const reservations = [reserve("09:00", "10:00"), reserve("09:30", "10:30")];
    const { clinicId } = history;
    const day = { resourceId: room, clinicId, sandboxGeneration: 0, day: "2027-03-01" };
    for (const count of [1, 2]) {
      const open = reservations.slice(0, count);
      const { reservationId = "", holderId = "" } = open.at(-1) ?? {};
      const event: ResourceDayEvent = {
        type: "PlaceReserved",
        data: { ...day, reservationId, holderId, reservations: open },
      };
      const newEvent = toNewEvent(event, { ...createTestOperatorContext(NOW), clinicId, environment: "production" });
      await world.log.append(`resourceDay-${room}.${day.day}`, BigInt(count - 2), [newEvent]);
    }
    return reservations;
  }
  const list = (...args: string[]) => world.run(["overlaps", ...args]);
  const parse = (output: string) => output.split("\n").flatMap((line) => (line === "" ? [] : JSON.parse(line)));
  async function exportClinic(...args: string[]): Promise<string> {
    const file = world.nameFile();
    const { code } = await world.run(["export", "--clinic", history.clinicId, "--out", file, ...args]);
    expect(code).to.equal(0);
    return file;
  }

  it("a log of allocations has no overlaps, although one was overbooked, and the access is recorded", async () => {
    await allocate("09:00", "10:00");
    await allocate("09:30", "10:30", true);
    await allocate("11:00", "12:00");
    const { code, output, errorLines } = await list("--clinic", history.clinicId, "--actor", "grace");
    expect([code, output, errorLines]).to.deep.equal([0, "", ["no overlaps in 3 events"]]);
    const args = ["--clinic", history.clinicId, "--key", world.keyFile, "--export", await exportClinic()];
    expect((await list(...args)).errorLines.slice(1)).to.deep.equal(["no overlaps in 3 events"]);
    const accesses = await world.run(["accesses", "--clinic", history.clinicId, "--json"]);
    const actions = parse(accesses.output).filter(({ actor }) => actor.id === "grace");
    expect(actions.map(({ action, asked }) => [action, asked])).to.deep.equal([
      ["overlaps", { clinic: history.clinicId }],
    ]);
  });

  it("an overlap that was planted in the log is listed once, from the log and from an export without any setting", async () => {
    const room = await addRoom();
    const reservations = await plant(room);
    const { clinicId } = history;
    const { code, output, errorLines } = await list("--clinic", clinicId, "--json");
    expect([code, errorLines]).to.deep.equal([3, ["audit: found 1 problem in 5 events"]]);
    const [{ position, ...overlap }] = parse(output);
    const span = { from: toTime("09:30"), to: toTime("10:00"), capacity: 1 };
    const stream = `resourceDay-${room}.2027-03-01`;
    expect(overlap).to.deep.equal({ stream, revision: 1, ...span, reservations });
    const args = ["overlaps", "--export", await exportClinic(), "--key", world.keyFile];
    const offline = await world.run([...args, "--json"], {});
    expect(offline.errorLines[0]).to.contain(`is complete and unaltered\n  clinic   ${clinicId}`);
    expect({ ...offline, errorLines: offline.errorLines.slice(1) }).to.deep.equal({ code, output, errorLines });
    const holders = reservations.map(({ holderId }) => `appointment ${holderId}`).join(", ");
    const line = `${position}  ${stream} @ 1  ${span.from} to ${span.to}, capacity 1: ${holders}\n`;
    expect((await world.run(args, {})).output).to.equal(line);
  });

  it("an export that is altered, of another clinic or not from the start is refused, and nothing is listed", async () => {
    const [file, key] = [await exportClinic(), ["--key", world.keyFile]];
    const altered = path.join(world.folder, "altered.ndjson");
    fs.writeFileSync(altered, fs.readFileSync(file, "utf8").replaceAll("T09:30:00.000Z", "T10:00:00.000Z"));
    const later = await exportClinic("--from", "2026-01-01T00:00:00Z");
    for (const args of [
      ["--export", altered],
      ["--export", later],
      ["--export", file, "--clinic", randomUUID()],
    ]) {
      const { code, output, errorLines } = await list(...args, ...key);
      expect([code, output, errorLines.join()]).to.deep.equal([3, "", errorLines[0]]);
      expect(errorLines[0]).to.contain(" is not verified: line ");
    }
    for (const args of [[], key, ["--export", file]]) expect((await list(...args)).code).to.equal(2);
  });

  it("the fixture of a sandbox counts in its generation, and events that cannot be checked are listed", async () => {
    const [applicationId, clinicId] = [randomUUID(), randomUUID()];
    const events = createFixture(applicationId, "2027-03-01");
    const allocation = events.find(({ type }) => type === "ResourceAllocated");
    if (allocation?.type !== "ResourceAllocated") throw new Error("the fixture has no allocation");
    const { resourceId: room, allocationStart, allocationEnd } = allocation.data;
    const times = { startsAt: allocationStart, endsAt: allocationEnd };
    const reservations = [{ ...reserve("09:00", "10:00"), ...times }];
    const place = (sandboxGeneration: number) => ({
      type: "PlaceReserved",
      data: { resourceId: room, clinicId, sandboxGeneration, day: allocationStart.slice(0, 10), reservations },
    });
    const reset = { type: "SandboxReset", data: { applicationId, clinicId, generation: 1, day: "2027-03-01", events } };
    async function* listEvents() {
      for (const [revision, catalogEvent] of [reset, place(1), place(1), place(2), undefined].entries())
        yield { auditEvent: { position: "1", stream: "s", revision }, catalogEvent } as unknown as LogEvent;
    }
    const findings: OverlapFinding[] = [];
    for await (const finding of checkOverlaps(listEvents())) findings.push(finding);
    expect(findings.map((finding) => [finding.revision, finding.problem ?? finding.from])).to.deep.equal([
      [1, allocationStart],
      [3, "resource_unknown"],
      [4, "unreadable"],
    ]);
  });
});
