import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { erasePerson, recordAndDestroy } from "../../command/operations/personal-data/erase-person.ts";
import { readCheckpoint } from "../../projection/checkpoints/checkpoint.ts";
import { buildTablesDdl } from "../../projection/engine/ddl.ts";
import { runProjection } from "../../projection/engine/projection.ts";
import type { AnyReadModel } from "../../projection/engine/read-model.ts";
import {
  QUARANTINE_STREAM,
  readQuarantineDecisions,
  readQuarantinedStreams,
} from "../../projection/quarantine/quarantined-streams.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { customers } from "../../projection/read-models/customers.ts";
import { publicEvents } from "../../projection/read-models/public-events.ts";
import type { ProjectionError, Role } from "../../projection/roles/role.ts";
import { createMetrics } from "../../projection/status/metrics.ts";
import { createReadinessCheck, type Reporter, startReporter } from "../../projection/status/reporter.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { deriveSandboxClinicId } from "../../shared/domain/events/ids.ts";
import { createFixture } from "../../shared/domain/partner/sandbox-fixture.ts";
import type { Person } from "../../shared/domain/personal-data/person.ts";
import { createEventLog, EMPTY_STREAM } from "../../shared/eventstore/log.ts";
import { createPositionWatch, readPosition } from "../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { appointmentRequested, createIds, membershipGranted, resourceAdded } from "../support/clinics.ts";
import { createTestDataKeys } from "../support/data-keys.ts";
import { eventually } from "../support/eventually.ts";
import { createClinic, createTestOperatorContext } from "../support/partner.ts";
import { createStoredMetadata } from "../support/stored-metadata.ts";
import {
  createEngineWorld,
  createRegisteredEvent,
  createRenamedEvent,
  type EngineWorld,
  logger,
} from "./engine-world.ts";

/** Read models of a release whose customer projector throws if a customer is renamed to "Poison". */
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
  let reporter: Reporter;
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
    reporter = startReporter({ ...world, roles: [role], metrics, logger, processName: "test:1" });
    await eventually("running", () => role.getStatus().state === "running");
  });

  after(async () => {
    await reporter.stop();
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
    expect(await createReadinessCheck([role], reporter)()).to.deep.equal({ projectors: null });
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
      `position ${poisonPosition}, stream ${badStream}, from revision 1 on: 3 events skipped\n    CustomerDetailsChanged: ${CAUSE}\n    quarantined automatically at `,
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
    const { projectors } = await createReadinessCheck([role], reporter)();
    expect(projectors).to.contain(`stopped at position ${positions[18]}, stream customer-${ids[18]}, revision 1`);
    await eventually("the status", async () =>
      (await world.runCommand("status")).stdout.includes(`clinic projection quarantine ${positions[18]} --reason`),
    );
    expect((await quarantine(poisonPosition)).stderr).to.contain(
      `The projectors have not stopped at position ${poisonPosition}.`,
    );
    expect((await quarantine(positions[18]!)).code).to.equal(0);
    const [decision] = await world.log.read(QUARANTINE_STREAM);
    expect(decision?.metadata.actor).to.deep.equal({ type: "operator", id: "Ada" });
    expect(decision?.data).to.deep.include({ stream: `customer-${ids[18]}`, revision: 1 });
    await eventually("the stream is skipped", async () => (await readQuarantined()).has(`customer-${ids[18]}`));
    expect((await world.runCommand("status", "--json")).stdout).to.contain('"reason": "Import"');
  });

  it("if an operator confirms the type of the events, projectors and a rebuild quarantine all streams that fail", async () => {
    const { stdout } = await eventually("the next event of the type", async () => {
      const result = await quarantine(role.getStatus().failedAt?.position ?? 0n, "--confirm-type");
      return result.code === 0 && result;
    });
    expect(stdout).to.contain("every stream in which a stored event of type CustomerDetailsChanged fails is skipped");
    await eventually("running", () => role.getStatus().state === "running");
    expect((await readQuarantined()).size).to.equal(22);
    await world.rebuild({ models: brokenModels });
    expect((await readQuarantined()).size).to.equal(22);
    await eventually("running", () => role.getStatus().state === "running");
  });

  const quarantine = (position: bigint, ...options: string[]) =>
    world.runCommand("quarantine", `${position}`, "--reason", "Import", "--actor", "Ada", ...options);

  it("`resume` replays a stream, and reports why the projectors still skip it", async () => {
    expect(await world.runCommand("resume", "1", "--reason", "Mended")).to.deep.include({
      code: 3,
      stderr: "projection: No stream is quarantined at position 1.\n",
    });
    expect(await world.runCommand("resume", `${poisonPosition}`, "--reason", "Mended")).to.deep.include({
      code: 1,
      stdout: `The projectors still skip stream ${badStream}: ${CAUSE}\n`,
    });
    expect((await readQuarantined()).get(badStream)?.events).to.equal(3n);
  });

  it("projectors of a release with the fix replay all streams that no operator quarantined, and `resume` the others", async () => {
    await world.stopRoles();
    const fixedRole = world.startProjectors();
    await eventually("running", () => fixedRole.getStatus().state === "running");
    expect(await world.readName(badCustomerId)).to.equal("Later");
    const quarantinedStreams = [...(await readQuarantined())];
    expect(quarantinedStreams).to.have.length(1);
    const { code, stdout } = await world.runCommand(
      "resume",
      `${quarantinedStreams[0]?.[1].position}`,
      "--reason",
      "Mended",
    );
    expect(code, stdout).to.equal(0);
    expect(stdout).to.match(/^Resumed: stream customer-\S+ is no longer skipped from revision 1 on\.\n$/);
    await world.append(badStream, createRenamedEvent(badCustomerId, "Live again"));
    await eventually("the live event", async () => (await world.readName(badCustomerId)) === "Live again");
    expect(await world.verify()).to.deep.include({ differences: [], quarantinedStreams: new Map() });
  });
});

describe("the fuse of an event type", () => {
  let world: EngineWorld;
  let role: Role;
  let reporter: Reporter;
  const goodId = randomUUID();

  before(async () => {
    world = await createEngineWorld();
    await world.append(`customer-${goodId}`, createRegisteredEvent(goodId, "Good"));
    role = world.startProjectors({ models: brokenModels });
    reporter = startReporter({ ...world, roles: [role], metrics: createMetrics(), logger });
  });
  after(async () => {
    await reporter.stop();
  });

  const appendGood = (count: number) =>
    world.append(`customer-${goodId}`, ...Array.from({ length: count }, (_, n) => createRenamedEvent(goodId, `${n}`)));
  /** Appends events that fail, each in a stream of its own. @returns their positions */
  async function appendPoison(count: number): Promise<bigint[]> {
    const positions: bigint[] = [];
    for (let n = 0; n < count; n += 1) {
      const id = randomUUID();
      const poison = [createRegisteredEvent(id, "Short-lived"), createRenamedEvent(id, "Poison")];
      positions.push(await world.append(`customer-${id}`, ...poison));
    }
    return positions;
  }
  const waitFor = async (position: bigint) =>
    expect(await createPositionWatch(() => readPosition(world.pool)).wait(position, 20_000)).to.equal(true);
  const waitForFailure = async () => {
    await eventually("failed", () => role.getStatus().state === "failed");
    return role.getStatus().failedAt?.position;
  };
  const confirmType = () =>
    eventually("the failure is reported", async () => {
      const position = `${role.getStatus().failedAt?.position}`;
      return (await world.runCommand("quarantine", position, "--reason", "Import", "--confirm-type")).code === 0;
    });
  /** Fills new tables in steps, as processes do that are restarted after each step. @returns position of the failure */
  async function fillWithRestarts(stepPositions: readonly bigint[]): Promise<bigint | undefined> {
    await world.pool.query(`DROP SCHEMA IF EXISTS steps CASCADE; ${buildTablesDdl(brokenModels, "steps")}`);
    const loadDecisions = () => readQuarantineDecisions(world.client);
    const options = { ...world, models: brokenModels, schema: "steps", logger, loadDecisions, onProgress: () => {} };
    for (const endPosition of stepPositions) {
      const run = runProjection({ ...options, endPosition }, new AbortController().signal);
      const error = await run.catch((error: ProjectionError) => error);
      if (error) return error.failedEventPosition?.position;
    }
    return undefined;
  }
  const rebuild = () =>
    world.rebuild({ models: brokenModels }).then(
      () => undefined,
      (error: ProjectionError) => error.failedEventPosition?.position,
    );

  it("many streams that fail do not stop live projectors, a rebuild or a new database, if their share is small", async () => {
    await appendGood(300);
    const positions = await appendPoison(33);
    await waitFor(positions[32]!);
    expect(role.getStatus().state).to.be.oneOf(["starting", "running"]);
    expect(await fillWithRestarts(positions)).to.equal(undefined);
    expect(await rebuild()).to.equal(undefined);
  });

  it("a share of more than a tenth stops live projectors, a rebuild and a new database at the same event, also after restarts", async () => {
    const positions = await appendPoison(30);
    // 33 of 333 events have failed before.
    expect(await waitForFailure()).to.equal(positions[0]);
    expect(await fillWithRestarts(positions)).to.equal(positions[0]);
    expect(await fillWithRestarts(positions.slice(-1))).to.equal(positions[0]);
    expect(await rebuild()).to.equal(positions[0]);
  });

  it("after an operator has confirmed the type, only 20 later streams fail before projectors stop again", async () => {
    await confirmType();
    const positions = await appendPoison(21);
    await eventually("the next failure", () => role.getStatus().failedAt?.position === positions[20]);
    expect(await fillWithRestarts(positions)).to.equal(positions[20]);
    expect(await rebuild()).to.equal(positions[20]);
  });

  it("only the last 1,000 events of the type count", async () => {
    await confirmType();
    await appendGood(950);
    const positions = await appendPoison(101);
    // 50 good events and the first 50 events that fail have left the window.
    await eventually("the next failure", () => role.getStatus().failedAt?.position === positions[100]);
    expect(await rebuild()).to.equal(positions[100]);
  });
});

describe("the replay of a quarantined stream", () => {
  let world: EngineWorld;
  let role: Role;
  /** Streams that the projectors cannot process, from a revision on. */
  const brokenStreams = new Map<string, bigint>();
  const fragileModels: AnyReadModel[] = readModels.map((model) => {
    const handlers = Object.entries(model.on).map(([type, handler]): [string, typeof handler] => [
      type,
      (row, event, findRows) => {
        if (event.revision >= (brokenStreams.get(event.stream) ?? event.revision + 1n)) throw new Error("broken");
        // Without its appointment, a public event has no row. A replay does not restore what a reset has deleted.
        return handler(row, event, model.table === publicEvents.table ? () => ({}) : findRows);
      },
    ]);
    return { ...model, on: Object.fromEntries(handlers) };
  });
  for (const model of fragileModels) {
    const tables = model.references?.map(({ table }) => table) ?? [];
    model.references = fragileModels.filter(({ table }) => tables.includes(table));
  }

  beforeEach(async () => {
    world = await createEngineWorld();
    role = world.startProjectors({ models: fragileModels });
  });

  /** Appends an event with encrypted personal data, as commands do. */
  async function append(stream: string, { type, data }: CatalogEvent, person?: Person) {
    // Without a cache, no destroyed key is used.
    const log = createEventLog(world.client, { dataKeys: createTestDataKeys(world.pool) });
    const revision = (await log.readLast(stream))?.revision ?? EMPTY_STREAM;
    const { schemaVersion: _, ...metadata } = createStoredMetadata({ type, data });
    const event = { type, data } as CatalogEvent;
    return log.append(stream, revision, [{ id: randomUUID(), event, metadata, person }]);
  }
  const waitFor = async (position: bigint) =>
    expect(await createPositionWatch(() => readPosition(world.pool)).wait(position, 20_000)).to.equal(true);
  const readRow = async (table: string, key: string, id: string) =>
    (await world.pool.query(`SELECT * FROM ${READ_MODEL_SCHEMA}.${table} WHERE ${key} = $1`, [id])).rows[0];
  /** Lets the projectors process the stream, and expects the same rows as those of a rebuild. */
  async function fixAndVerify(stream: string) {
    const quarantinedStream = (await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA)).get(stream);
    brokenStreams.clear();
    const position = `${quarantinedStream?.position}`;
    const { code, stdout } = await world.runCommand("resume", position, "--reason", "Mended");
    expect(code, stdout).to.equal(0);
    await eventually("other streams are replayed", async () => {
      return (await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA)).size === 0;
    });
    expect(await world.verify({ models: fragileModels })).to.deep.include({
      differences: [],
      quarantinedStreams: new Map(),
    });
    expect(role.getStatus().state).to.equal("running");
  }

  it("a membership is denied while its stream is quarantined, and complete after the replay", async () => {
    const membershipId = randomUUID();
    const stream = `membership-${membershipId}`;
    brokenStreams.set(stream, 1n);
    await append(stream, membershipGranted(randomUUID(), randomUUID(), { membershipId }));
    const data = {
      membershipId,
      role: "assistant" as const,
      permissions: [],
      branchAccess: "all" as const,
      branchIds: [],
    };
    await waitFor(await append(stream, { type: "MembershipPermissionsChanged", data }));
    expect(await readRow("membership", "membership_id", membershipId)).to.equal(undefined);
    await fixAndVerify(stream);
    expect(await readRow("membership", "membership_id", membershipId)).to.deep.include({
      status: "active",
      permissions: [],
    });
  });

  it("the replay of an appointment changes nothing that a later reset of its sandbox has deleted", async () => {
    const [applicationId, appointmentId, assignmentId, resourceId] = createIds();
    const clinicId = deriveSandboxClinicId(applicationId);
    const createResetEvent = (generation: number): CatalogEvent => ({
      type: "SandboxReset",
      data: {
        applicationId,
        clinicId,
        generation,
        day: "2026-03-10",
        events: createFixture(applicationId, "2026-03-10"),
      },
    });
    const stream = `appointment-${appointmentId}`;
    const times = { allocationStart: "2026-03-12T10:00:00.000Z", allocationEnd: "2026-03-12T10:30:00.000Z" };
    for (const revision of [0n, 1n]) {
      await append(`sandbox-${applicationId}`, createResetEvent(revision === 0n ? 1 : 3));
      const currentStream = revision === 0n ? stream : `appointment-${assignmentId}`;
      brokenStreams.set(currentStream, revision);
      const id = currentStream.slice("appointment-".length);
      const sandboxGeneration = revision === 0n ? 1 : 3;
      const requested = appointmentRequested(clinicId, randomUUID(), "2026-03-12T10:00:00Z", {
        appointmentId: id,
        sandboxGeneration,
        reason: null,
        notes: null,
      });
      await append(currentStream, requested, { type: "appointment", id });
      const allocation = { appointmentId: id, assignmentId: randomUUID(), resourceId, ...times };
      await append(currentStream, { type: "ResourceAllocated", data: allocation });
      await waitFor(await append(`sandbox-${applicationId}`, createResetEvent(revision === 0n ? 2 : 4)));
      await fixAndVerify(currentStream);
      expect(await readRow("appointment", "appointment_id", id)).to.equal(undefined);
      expect(await readRow("assignment", "appointment_id", id)).to.equal(undefined);
    }
  });

  it("appointments of a sandbox wait for the reset in its quarantined stream, and do not count as a fault", async () => {
    const [applicationId] = createIds();
    const clinicId = deriveSandboxClinicId(applicationId);
    const stream = `sandbox-${applicationId}`;
    const reset = (generation: number) => {
      const events = createFixture(applicationId, "2026-03-10");
      const data = { applicationId, clinicId, generation, day: "2026-03-10", events };
      return append(stream, { type: "SandboxReset", data });
    };
    brokenStreams.set(stream, 1n);
    for (const generation of [1, 2, 3]) await reset(generation);
    const ids = Array.from({ length: 21 }, () => randomUUID());
    for (const appointmentId of ids) {
      const details = { appointmentId, applicationId, sandboxGeneration: 3, reason: null, notes: null };
      const requested = appointmentRequested(clinicId, randomUUID(), "2026-03-12T10:00:00Z", details);
      const owner = { type: "appointment" as const, id: appointmentId };
      await waitFor(await append(`appointment-${appointmentId}`, requested, owner));
    }
    expect(await readRow("appointment", "appointment_id", ids[20]!)).to.equal(undefined);
    expect((await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA)).size).to.equal(22);
    await fixAndVerify(stream);
    expect(await readRow("appointment", "appointment_id", ids[20]!)).to.deep.include({ status: "requested" });
  });

  for (const brokenRevision of [0n, 1n])
    it(`the replay of an appointment from revision ${brokenRevision} on keeps an erasure that came later`, async () => {
      const { clinicId, branchId, animalId, customerId } = await createClinic(world.log);
      const appointmentId = randomUUID();
      const stream = `appointment-${appointmentId}`;
      brokenStreams.set(stream, brokenRevision);
      const requested = appointmentRequested(clinicId, branchId, "2026-03-12T10:00:00Z", {
        appointmentId,
        animalId,
        customerId,
        notes: "Limps",
      });
      await append(stream, requested, { type: "customer", id: customerId });
      const confirmed: CatalogEvent = { type: "AppointmentConfirmed", data: { appointmentId } };
      await append(stream, confirmed);
      const erasure = { categories: ["notes" as const], cause: "request" as const, reason: "Request 17" };
      await erasePerson(world, { type: "customer", id: customerId, clinicId }, erasure, createTestOperatorContext());
      await fixAndVerify(stream);
      const position = (await world.log.readLast(`customer-${customerId}`))?.position;
      const expectedRow = { notes: null, status: "confirmed", position };
      expect(await readRow("appointment", "appointment_id", appointmentId)).to.deep.include(expectedRow);
    });

  it("the replay of a customer's erasure keeps data that was recorded later", async () => {
    const { clinicId, branchId, animalId, customerId } = await createClinic(world.log);
    const stream = `customer-${customerId}`;
    const requestVisit = async (notes: string) => {
      const appointmentId = randomUUID();
      const details = { appointmentId, animalId, customerId, notes };
      const requested = appointmentRequested(clinicId, branchId, "2026-03-12T10:00:00Z", details);
      const owner = { type: "customer" as const, id: customerId };
      await waitFor(await append(`appointment-${appointmentId}`, requested, owner));
      return appointmentId;
    };
    const earlierId = await requestVisit("Limps");
    brokenStreams.set(stream, 1n);
    const erasure = { categories: ["notes" as const], cause: "request" as const, reason: "Request 17" };
    await recordAndDestroy(world, { type: "customer", id: customerId, clinicId }, erasure, createTestOperatorContext());
    const laterId = await requestVisit("Bites");
    expect(await readRow("appointment", "appointment_id", earlierId)).to.deep.include({ notes: "Limps" });
    await fixAndVerify(stream);
    const position = (await world.log.readLast(stream))?.position;
    expect(await readRow("appointment", "appointment_id", earlierId)).to.deep.include({ notes: null, position });
    expect(await readRow("appointment", "appointment_id", laterId)).to.deep.include({ notes: "Bites" });
  });

  it("the replay of a customer's second erasure keeps the positions that the first one gave to appointments", async () => {
    const { clinicId, branchId, animalId, customerId } = await createClinic(world.log);
    const stream = `customer-${customerId}`;
    const appointmentId = randomUUID();
    const requested = appointmentRequested(clinicId, branchId, "2026-03-12T10:00:00Z", {
      ...{ appointmentId, animalId, customerId, notes: "Limps" },
    });
    await append(`appointment-${appointmentId}`, requested, { type: "customer", id: customerId });
    const erase = (category: "notes" | "contact") => {
      const erasure = { categories: [category], cause: "request" as const, reason: "Request 17" };
      const customer = { type: "customer" as const, id: customerId, clinicId };
      return recordAndDestroy(world, customer, erasure, createTestOperatorContext());
    };
    await erase("notes");
    const position = (await world.log.readLast(stream))?.position ?? 0n;
    await waitFor(position);
    brokenStreams.set(stream, 2n);
    await erase("contact");
    await waitFor((await world.log.readLast(stream))?.position ?? 0n);
    await fixAndVerify(stream);
    expect(await readRow("appointment", "appointment_id", appointmentId)).to.deep.include({ notes: null, position });
  });

  it("the replay of a resource completes the appointments that it was allocated to", async () => {
    const { clinicId, branchId, customerId } = await createClinic(world.log);
    const [resourceId, appointmentId, assignmentId] = createIds();
    brokenStreams.set(`resource-${resourceId}`, 0n);
    await append(`resource-${resourceId}`, resourceAdded(clinicId, branchId, resourceId));
    const details = { appointmentId, reason: null, notes: null };
    const requested = appointmentRequested(clinicId, branchId, "2026-03-12T10:00:00Z", details);
    await append(`appointment-${appointmentId}`, requested, { type: "customer", id: customerId });
    const times = { allocationStart: "2026-03-12T10:00:00.000Z", allocationEnd: "2026-03-12T10:30:00.000Z" };
    const data = { appointmentId, assignmentId, resourceId, ...times };
    await waitFor(await append(`appointment-${appointmentId}`, { type: "ResourceAllocated", data }));
    await fixAndVerify(`resource-${resourceId}`);
    const { longest_allocation_seconds: seconds } = await readRow("resource", "resource_id", resourceId);
    expect(seconds).to.equal(1_800);
  });
});
