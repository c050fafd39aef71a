import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { readCheckpoint } from "../../projection/checkpoints/checkpoint.ts";
import type { AnyReadModel } from "../../projection/engine/read-model.ts";
import { QUARANTINE_STREAM, readQuarantineDecisions } from "../../projection/quarantine/decisions.ts";
import {
  CommandRefusedError,
  findQuarantinedStream,
  quarantineStream,
} from "../../projection/quarantine/quarantine-commands.ts";
import { readSkippedEvents } from "../../projection/quarantine/quarantined-streams.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { customers } from "../../projection/read-models/customers.ts";
import { ProjectionError } from "../../projection/roles/failure.ts";
import type { Role } from "../../projection/roles/role.ts";
import { createMetrics } from "../../projection/status/metrics.ts";
import { createReadinessCheck, type Reporter, startReporter } from "../../projection/status/reporter.ts";
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
  let stoppedPosition: bigint;

  const quarantineCommand = {
    actor: { type: "operator", id: "Ada" } as const,
    reason: "Broken by an import",
    now: Date.now(),
  };
  const quarantine = (position: bigint) => quarantineStream(world, position, quarantineCommand);
  const catchError = async (promise: Promise<unknown>) =>
    promise.then(
      () => undefined,
      (error: Error) => error,
    );

  before(async () => {
    world = await createEngineWorld();
    await world.append(`customer-${badCustomerId}`, createRegisteredEvent(badCustomerId, "Before"));
    await world.append(`customer-${goodCustomerId}`, createRegisteredEvent(goodCustomerId, "Ana Kos"));
    await world.append("elsewhere-1", { type: "NothingOfOurs", data: {} });
    stoppedPosition = await world.append(`customer-${badCustomerId}`, createRenamedEvent(badCustomerId, "Poison"));
    await world.append(`customer-${badCustomerId}`, createRenamedEvent(badCustomerId, "After"));
    await world.append(`customer-${goodCustomerId}`, createRenamedEvent(goodCustomerId, "Ana Novak"));
    role = world.startProjectors({ models: brokenModels });
    reporter = startReporter({ ...world, roles: [role], metrics, logger, processName: "test:1" });
    await eventually("failed", () => role.getStatus().state === "failed");
  });

  after(async () => {
    await reporter.stop();
    await world.close();
  });

  it("projectors stop before an event that cannot be processed, and report stream, revision and cause", async () => {
    expect(role.getStatus().lastError?.message).to.equal(
      `position ${stoppedPosition}, stream customer-${badCustomerId}, revision 1: read model customer cannot process CustomerDetailsChanged: cannot be Poison`,
    );
    expect(await world.readName(badCustomerId)).to.equal("Before");
    expect(await world.readName(goodCustomerId)).to.equal("Ana Kos");
    expect((await readCheckpoint(world.pool, READ_MODEL_SCHEMA)).position < stoppedPosition).to.equal(true);
  });

  it("the public health report shows position, stream and revision of the failing event, but no event data", async () => {
    const { projectors } = await createReadinessCheck([role], reporter)();
    const locationText = `position ${stoppedPosition}, stream customer-${badCustomerId}, revision 1`;
    expect(projectors).to.match(
      new RegExp(`^stopped at ${locationText}, CustomerDetailsChanged(; \\d+ events and \\d+ s behind)?$`),
    );
  });

  it("the status suggests the command that quarantines the stream", async () => {
    await eventually("the record", async () => {
      const { rowCount } = await world.pool.query("SELECT FROM projection.process_status WHERE state = 'failed'");
      return rowCount === 1;
    });
    const { stdout } = await world.runCommand("status");
    expect(stdout).to.match(
      /process {6}test:1 stopped: position \d+, stream customer-.*, revision 1: .*cannot be Poison$/m,
    );
    expect(stdout).to.contain(`clinic projection quarantine ${stoppedPosition} --reason`);
    expect(stdout).to.match(/position {5}\d+ {2}3 events and [\d.]+ s behind/);
    expect(stdout).to.match(/quarantined streams: none/);
  });

  it("only the event at which the projectors stopped can be quarantined", async () => {
    expect((await catchError(quarantine(stoppedPosition + 1n)))?.message).to.match(
      /^There is no event at position \d+\.$/,
    );
    const { position: checkpointPosition } = await readCheckpoint(world.pool, READ_MODEL_SCHEMA);
    const error = await catchError(quarantine(checkpointPosition));
    expect(error).to.be.instanceOf(CommandRefusedError);
    expect(error?.message).to.match(
      /^Neither projectors nor relay stopped at position \d+\. Run status to see the position\.$/,
    );
    expect((await readQuarantineDecisions(world.log)).streams.size).to.equal(0);
  });

  it("projectors skip a quarantined stream and continue", async () => {
    const { code, stdout } = await world.runCommand(
      "quarantine",
      `${stoppedPosition}`,
      "--reason",
      quarantineCommand.reason,
      "--actor",
      "Ada",
    );
    expect(code).to.equal(0);
    expect(stdout).to.contain(`stream customer-${badCustomerId} is skipped from revision 1 on`);
    await eventually("the projectors continue", async () => (await world.readName(goodCustomerId)) === "Ana Novak");
    await eventually("running", () => role.getStatus().state === "running");
    await world.append(`customer-${badCustomerId}`, createRenamedEvent(badCustomerId, "Later"));
    await world.append(`customer-${goodCustomerId}`, createRenamedEvent(goodCustomerId, "Ana Zupan"));
    await eventually("the live event", async () => (await world.readName(goodCustomerId)) === "Ana Zupan");
    expect(await world.readName(badCustomerId)).to.equal("Before");
    const { events } = (await readSkippedEvents(world.pool, READ_MODEL_SCHEMA)).get(`customer-${badCustomerId}`)!;
    expect(events).to.equal(3n);
    const [quarantineEvent] = await world.log.read(QUARANTINE_STREAM);
    expect(quarantineEvent?.metadata.actor).to.deep.equal({ type: "operator", id: "Ada" });
    expect((await catchError(quarantine(stoppedPosition)))?.message).to.match(
      / stopped at position|is already quarantined/,
    );
  });

  it("`verify` and `rebuild` skip a quarantined stream", async () => {
    expect(await world.verify()).to.deep.include({ differences: [], differenceCount: 0, skippedStreamCount: 1 });
    await world.rebuild({ models: brokenModels });
    expect(await world.readName(badCustomerId)).to.equal("Before");
    expect((await world.verify()).differences).to.deep.equal([]);
    expect((await readSkippedEvents(world.pool, READ_MODEL_SCHEMA)).get(`customer-${badCustomerId}`)?.events).to.equal(
      3n,
    );
  });

  it("the status shows the position, cause, reason, actor and time of a quarantined stream, and the metrics count the stream", async () => {
    const { stdout } = await world.runCommand("status", "--json");
    const { quarantined } = JSON.parse(stdout);
    expect(quarantined).to.have.length(1);
    expect(quarantined[0]).to.deep.include({
      stream: `customer-${badCustomerId}`,
      position: String(stoppedPosition),
      revision: "1",
      events: "3",
      reason: quarantineCommand.reason,
      actor: "Ada",
      state: "quarantined",
      eventType: "CustomerDetailsChanged",
    });
    expect(quarantined[0].cause).to.contain(
      "read model customer cannot process CustomerDetailsChanged: cannot be Poison",
    );
    expect(Date.parse(quarantined[0].since)).to.be.closeTo(Date.now(), 60_000);
    const showsMetric = async (line: string) => (await metrics.registry.metrics()).split("\n").includes(line);
    await eventually("the metrics", () => showsMetric("projection_quarantined_events 3"));
    for (const line of [
      "projection_quarantined_streams 1",
      'projection_leader{role="projectors"} 1',
      'projection_failed{role="projectors"} 0',
      'projection_lag_events{role="projectors"} 0',
    ]) {
      await eventually(line, () => showsMetric(line));
    }
  });

  it("a stream stays quarantined if a rebuild that includes the stream fails", async () => {
    const error = await catchError(
      world.rebuild({ models: brokenModels, includedStream: `customer-${badCustomerId}` }),
    );
    expect(error).to.be.instanceOf(ProjectionError);
    expect(await world.readName(badCustomerId)).to.equal("Before");
    expect((await readQuarantineDecisions(world.log)).streams.size).to.equal(1);
  });

  it("after `resume`, a release with the bug fix processes all events of the quarantined stream in order", async () => {
    expect((await catchError(findQuarantinedStream(world, 1n)))?.message).to.equal(
      "No stream is quarantined at position 1.",
    );
    const { code, stdout, stderr } = await world.runCommand("resume", `${stoppedPosition}`, "--reason", "Mended");
    expect(code, stderr).to.equal(0);
    expect(stdout).to.contain(`Resumed: stream customer-${badCustomerId} is no longer skipped from revision 1 on.`);
    expect(await world.readName(badCustomerId)).to.equal("Later");
    expect((await readQuarantineDecisions(world.log)).streams.size).to.equal(0);
    await world.append(`customer-${badCustomerId}`, createRenamedEvent(badCustomerId, "Live again"));
    await eventually("the live event", async () => (await world.readName(badCustomerId)) === "Live again");
    expect(await world.verify()).to.deep.include({ differences: [], skippedStreamCount: 0 });
  });
});
