import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { readCheckpoint } from "../../projection/checkpoints/checkpoint.ts";
import type { AnyReadModel } from "../../projection/engine/read-model.ts";
import { QUARANTINE_STREAM } from "../../projection/quarantine/decisions.ts";
import { readQuarantinedStreams } from "../../projection/quarantine/quarantined-streams.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { customers } from "../../projection/read-models/customers.ts";
import type { Role } from "../../projection/roles/role.ts";
import { createMetrics } from "../../projection/status/metrics.ts";
import { createReadinessCheck, type Reporter, startReporter } from "../../projection/status/reporter.ts";
import { createPositionWatch, readPosition } from "../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { eventually } from "../support/eventually.ts";
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
  const CustomerDetailsChanged: typeof handler = (row, event) => {
    if (event.type === "CustomerDetailsChanged" && event.data.fullName === "Poison") {
      throw new Error(`cannot be ${event.data.fullName}`);
    }
    return handler(row, event);
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
    await world.close();
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
      clinicId: null,
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
    ]) {
      await eventually(line, () => showsMetric(line));
    }
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

  it("projectors stop at an event if many streams with events of its type were quarantined within a minute", async () => {
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
    expect(lastError?.message).to.equal(`position ${positions[18]}, stream customer-${ids[18]}, revision 1: ${CAUSE}`);
    expect((await readQuarantined()).size).to.equal(20);
    const { projectors } = await createReadinessCheck([role], reporter)();
    expect(projectors).to.contain(`stopped at position ${positions[18]}, stream customer-${ids[18]}, revision 1`);
    await eventually("the status", async () =>
      (await world.runCommand("status")).stdout.includes(`clinic projection quarantine ${positions[18]} --reason`),
    );
    const quarantine = (position: bigint) =>
      world.runCommand("quarantine", `${position}`, "--reason", "Import", "--actor", "Ada");
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

  it("a rebuild reproduces more quarantined streams than the limit", async () => {
    await eventually("the next event of the type", () => role.getStatus().state === "failed");
    await world.rebuild({ models: brokenModels });
    expect((await readQuarantined()).size).to.equal(22);
    await eventually("running", () => role.getStatus().state === "running");
  });

  it("`resume` reports that a stream still cannot be processed, and after a fix the stream is complete", async () => {
    expect(await world.runCommand("resume", "1", "--reason", "Mended")).to.deep.include({
      code: 3,
      stderr: "projection: No stream is quarantined at position 1.\n",
    });
    const { code, stdout, stderr } = await world.runCommand("resume", `${poisonPosition}`, "--reason", "Mended");
    expect(code, stderr).to.equal(0);
    expect(stdout).to.contain(`Resumed: stream ${badStream} is no longer skipped from revision 1 on.`);
    expect(await world.readName(badCustomerId)).to.equal("Later");
    expect(await world.verify()).to.deep.include({ differences: [] });
  });
});
