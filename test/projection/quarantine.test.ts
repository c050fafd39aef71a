import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { readCheckpoint } from "../../projection/checkpoints/checkpoint.ts";
import type { AnyReadModel } from "../../projection/engine/read-model.ts";
import { QUARANTINE_STREAM } from "../../projection/quarantine/confirmed-types.ts";
import { readQuarantinedStreams } from "../../projection/quarantine/quarantined-streams.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { customers } from "../../projection/read-models/customers.ts";
import type { Role } from "../../projection/roles/role.ts";
import { createMetrics } from "../../projection/status/metrics.ts";
import { createReadinessCheck, startReporter } from "../../projection/status/reporter.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { deriveSandboxClinicId } from "../../shared/domain/events/ids.ts";
import { createFixture } from "../../shared/domain/partner/sandbox-fixture.ts";
import { createPositionWatch, readPosition } from "../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { appointmentRequested, createIds, membershipGranted } from "../support/clinics.ts";
import { eventually } from "../support/eventually.ts";
import { createStoredMetadata } from "../support/stored-metadata.ts";
import {
  createEngineWorld,
  createRegisteredEvent,
  createRenamedEvent,
  type EngineWorld,
  logger,
} from "./engine-world.ts";

/** Read models of a faulty release. Its customer handler throws if a customer is renamed to "Poison". */
const brokenModels: AnyReadModel[] = readModels.map((model) => {
  const handler = model.on.CustomerDetailsChanged;
  if (model.table !== customers.table || !handler) return model;
  const CustomerDetailsChanged: typeof handler = (row, event, findRows) => {
    if (event.type === "CustomerDetailsChanged" && event.data.fullName === "Poison")
      throw new Error(`cannot be ${event.data.fullName}`);
    return handler(row, event, findRows);
  };
  return { ...model, on: { ...model.on, CustomerDetailsChanged } };
});

describe("a stream with an event that projectors cannot process", () => {
  let world: EngineWorld;
  let role: Role;
  let stopReporting: () => Promise<void>;
  const metrics = createMetrics();
  const [badCustomerId, goodCustomerId] = [randomUUID(), randomUUID()];
  const badStream = `customer-${badCustomerId}`;
  const CAUSE = "read model customer cannot process CustomerDetailsChanged: cannot be Poison";
  let poisonPosition: bigint;

  const readQuarantined = () => readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA);
  const showsMetric = async (line: string) => (await metrics.registry.metrics()).split("\n").includes(line);

  before(async () => {
    world = await createEngineWorld();
    await world.append(badStream, createRegisteredEvent(badCustomerId, "Before"));
    await world.append(`customer-${goodCustomerId}`, createRegisteredEvent(goodCustomerId, "Ana Kos"));
    await world.append("elsewhere-1", { type: "NothingOfOurs", data: {} });
    poisonPosition = await world.append(badStream, createRenamedEvent(badCustomerId, "Poison"));
    await world.append(badStream, createRenamedEvent(badCustomerId, "After"));
    await world.append(`customer-${goodCustomerId}`, createRenamedEvent(goodCustomerId, "Ana Novak"));
    role = world.startProjectors({ models: brokenModels });
    stopReporting = startReporter({ ...world, roles: [role], metrics, logger, processName: "test:1" });
    await eventually("running", () => role.getStatus().state === "running");
  });

  after(async () => {
    await stopReporting();
  });

  it("projectors quarantine only this stream, from the event on, and record it in the read models and not in the log", async () => {
    expect([await world.readName(badCustomerId), await world.readName(goodCustomerId)]).to.deep.equal([
      "Before",
      "Ana Novak",
    ]);
    const quarantinedStreams = await readQuarantined();
    expect([...quarantinedStreams.keys()]).to.deep.equal([badStream]);
    const quarantinedStream = quarantinedStreams.get(badStream)!;
    expect(quarantinedStream).to.deep.include({
      revision: 1n,
      position: poisonPosition,
      eventType: "CustomerDetailsChanged",
      cause: CAUSE,
      clinicId: createStoredMetadata(createRenamedEvent(badCustomerId, "Poison")).clinicId,
      events: 2n,
    });
    expect(Date.parse(quarantinedStream.since)).to.be.closeTo(Date.now(), 60_000);
    expect(await world.log.read(QUARANTINE_STREAM)).to.deep.equal([]);
    expect(await createReadinessCheck([role])()).to.deep.equal({ projectors: null });
  });

  it("within a second after the event, reads that wait for a later position of another stream return", async () => {
    const watch = createPositionWatch(() => readPosition(world.pool));
    const [poisonedId, otherId] = [randomUUID(), randomUUID()];
    await world.append(
      `customer-${poisonedId}`,
      createRegisteredEvent(poisonedId, "Short-lived"),
      createRenamedEvent(poisonedId, "Poison"),
    );
    const position = await world.append(`customer-${otherId}`, createRegisteredEvent(otherId, "Next Tenant"));
    expect(await watch.wait(position, 1_000)).to.equal(true);
    expect(await world.readName(otherId)).to.equal("Next Tenant");
    expect(await world.readName(poisonedId)).to.equal("Short-lived");
    expect((await readCheckpoint(world.pool, READ_MODEL_SCHEMA)).position >= position).to.equal(true);
    const later = await world.append(badStream, createRenamedEvent(badCustomerId, "Later"));
    expect(await watch.wait(later, 10_000)).to.equal(true);
    expect((await readQuarantined()).get(badStream)?.events).to.equal(3n);
  });

  it("the status lists quarantined streams with position, cause and time, and the metrics count them", async () => {
    const { stdout } = await world.runCommand("status");
    expect(stdout).to.contain("quarantined streams: 2\n");
    expect(stdout).to.contain(
      `position ${poisonPosition}, stream ${badStream}, from revision 1 on: 3 events skipped\n    CustomerDetailsChanged: ${CAUSE}\n    quarantined at `,
    );
    for (const line of [
      "projection_quarantined_events 4",
      "projection_quarantined_streams 2",
      'projection_failed{role="projectors"} 0',
      'projection_lag_events{role="projectors"} 0',
    ])
      await eventually(line, () => showsMetric(line));
  });

  it("`verify` lists quarantined streams and compares all other rows, and a rebuild reproduces the quarantine", async () => {
    const before = await readQuarantined();
    expect((await world.runCommand("verify")).stdout)
      .to.contain(`quarantined ${badStream} from revision 1 on: ${CAUSE}\n`)
      .and.to.match(/, not counting 2 quarantined streams: 0 differ$/m);
    await world.rebuild({ models: brokenModels });
    expect((await world.verify()).differenceCount).to.equal(0);
    const withoutTime = (streams: typeof before) =>
      [...streams].map(([name, values]) => [name, { ...values, since: 0 }]);
    expect(withoutTime(await readQuarantined())).to.deep.equal(withoutTime(before));
    await eventually("running", () => role.getStatus().state === "running");
  });

  it("projectors stop at an event if many streams with events of its type fail, and a large share of these events", async () => {
    const ids = Array.from({ length: 20 }, () => randomUUID());
    const positions: bigint[] = [];
    for (const id of ids) {
      const poison = [createRegisteredEvent(id, "Many"), createRenamedEvent(id, "Poison")];
      positions.push(await world.append(`customer-${id}`, ...poison));
    }
    const { failedAt, lastError } = await eventually(
      "failed",
      () => role.getStatus().state === "failed" && role.getStatus(),
    );
    // Two streams of the type were quarantined before.
    expect(failedAt?.position).to.equal(positions[18]);
    expect(lastError?.message).to.equal(
      `position ${positions[18]}, stream customer-${ids[18]}, revision 1: ${CAUSE} (more than 20 streams and a tenth of the events of this type fail)`,
    );
    expect((await readQuarantined()).size).to.equal(20);
    const { projectors } = await createReadinessCheck([role])();
    expect(projectors).to.contain(`stopped at position ${positions[18]}, stream customer-${ids[18]}, revision 1`);
    await eventually("the status", async () =>
      (await world.runCommand("status")).stdout.includes(`clinic projection quarantine ${positions[18]} --reason`),
    );
    expect((await quarantine(poisonPosition)).stderr).to.contain(
      `The projectors have not stopped at position ${poisonPosition}.`,
    );
    expect(await quarantine(positions[18]!)).to.deep.include({
      code: 0,
      stdout: `Confirmed: every stream in which a stored event of type CustomerDetailsChanged fails is skipped from that event on.
The projectors continue within seconds.
`,
    });
    const [decision] = await world.log.read(QUARANTINE_STREAM);
    expect(decision?.metadata.actor).to.deep.equal({ type: "operator", id: "Ada" });
    expect(decision?.data).to.deep.equal({ eventType: "CustomerDetailsChanged", reason: "Import" });
    await eventually("running", () => role.getStatus().state === "running");
    expect((await readQuarantined()).size).to.equal(22);
    await world.rebuild({ models: brokenModels });
    expect((await readQuarantined()).size).to.equal(22);
    await eventually("running", () => role.getStatus().state === "running");
    const sql = `SELECT outcomes FROM ${READ_MODEL_SCHEMA}.event_outcome WHERE event_type = 'CustomerDetailsChanged'`;
    expect((await world.pool.query(sql)).rows).to.deep.equal([{ outcomes: `101${"1".repeat(20)}` }]);
  });

  const quarantine = (position: bigint) =>
    world.runCommand("quarantine", `${position}`, "--reason", "Import", "--actor", "Ada");

  it("a release with the fix skips the streams until its rebuild, which includes them", async () => {
    await world.stopRoles();
    const fixedRole = world.startProjectors();
    await eventually("running", () => fixedRole.getStatus().state === "running");
    expect((await readQuarantined()).size).to.equal(22);
    await world.rebuild();
    expect(await world.readName(badCustomerId)).to.equal("Later");
    await world.append(badStream, createRenamedEvent(badCustomerId, "Live again"));
    await eventually("the live event", async () => (await world.readName(badCustomerId)) === "Live again");
    expect(await world.verify()).to.deep.include({ differences: [], quarantinedStreams: new Map() });
  });
});

describe("a quarantined stream on which others depend", () => {
  let world: EngineWorld;
  /** Stream that becomes unprocessable at revision 1. */
  let brokenStream: string;
  const fragileModels: AnyReadModel[] = readModels.map((model) => {
    const handlers = Object.entries(model.on).map(([type, handler]): [string, typeof handler] => [
      type,
      (row, event, findRows) => {
        if (event.stream === brokenStream && event.revision >= 1n) throw new Error("broken");
        return handler(row, event, findRows);
      },
    ]);
    return { ...model, on: Object.fromEntries(handlers) };
  });

  beforeEach(async () => {
    world = await createEngineWorld();
    world.startProjectors({ models: fragileModels });
  });

  const append = (stream: string, { type, data }: CatalogEvent) => world.append(stream, { type, data });
  const readRow = async (table: string, key: string, id: string) =>
    (await world.pool.query(`SELECT * FROM ${READ_MODEL_SCHEMA}.${table} WHERE ${key} = $1`, [id])).rows[0];
  const fixAndRebuild = async () => {
    brokenStream = "";
    await world.rebuild({ models: fragileModels });
    expect((await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA)).size).to.equal(0);
  };

  it("a membership is denied while its stream is quarantined, and complete after a rebuild", async () => {
    const membershipId = randomUUID();
    brokenStream = `membership-${membershipId}`;
    await append(brokenStream, membershipGranted(randomUUID(), randomUUID(), { membershipId }));
    const access = { role: "assistant", branchAccess: "all" } as const;
    const data = { membershipId, ...access, permissions: [], branchIds: [] };
    await world.waitFor(await append(brokenStream, { type: "MembershipPermissionsChanged", data }));
    expect(await readRow("membership", "membership_id", membershipId)).to.equal(undefined);
    await fixAndRebuild();
    expect(await readRow("membership", "membership_id", membershipId)).to.deep.include({
      status: "active",
      permissions: [],
    });
  });

  it("appointments and links of a sandbox wait for the reset in its quarantined stream, and do not count as a fault", async () => {
    const [applicationId] = createIds();
    const clinicId = deriveSandboxClinicId(applicationId);
    brokenStream = `sandbox-${applicationId}`;
    for (const generation of [1, 2, 3]) {
      const events = createFixture(applicationId, "2026-03-10");
      const data = { applicationId, clinicId, generation, day: "2026-03-10", events };
      await append(brokenStream, { type: "SandboxReset", data });
    }
    const ids = Array.from({ length: 21 }, () => randomUUID());
    for (const appointmentId of ids) {
      const details = { appointmentId, applicationId, sandboxGeneration: 3 };
      const requested = appointmentRequested(clinicId, randomUUID(), "2026-03-12T10:00:00Z", details);
      await world.waitFor(await append(`appointment-${appointmentId}`, requested));
    }
    const [animalId, customerId, linkId] = createIds();
    const link = { animalId, clinicId, applicationId, linkId, covers: "appointments_read", customerId } as const;
    const linked = { type: "AnimalLinked", data: { ...link, sandboxGeneration: 3 } } as const;
    await world.waitFor(await append(`animalConsent-${animalId}`, linked));
    expect(await readRow("appointment", "appointment_id", ids[20]!)).to.equal(undefined);
    expect((await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA)).size).to.equal(23);
    await fixAndRebuild();
    expect(await readRow("appointment", "appointment_id", ids[20]!)).to.deep.include({ status: "requested" });
    expect(await readRow("animal_link", "link_id", linkId)).to.deep.include({ animal_id: animalId });
  });
});
