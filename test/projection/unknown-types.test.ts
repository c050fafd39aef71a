import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { startProjectors } from "../../projection/engine/projectors.ts";
import {
  QUARANTINE_STREAM,
  readQuarantineDecisions,
  readQuarantinedStreams,
} from "../../projection/quarantine/quarantined-streams.ts";
import { readModels } from "../../projection/read-models/all.ts";
import type { Role } from "../../projection/roles/role.ts";
import { createMetrics } from "../../projection/status/metrics.ts";
import { type Reporter, startReporter } from "../../projection/status/reporter.ts";
import { EventSchemaError } from "../../shared/domain/events/stored-event.ts";
import { isLogAvailable } from "../../shared/eventstore/stream-failure.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { eventually } from "../support/eventually.ts";
import { useResource } from "../support/resources.ts";
import { createEngineWorld, createRegisteredEvent, createRenamedEvent, logger } from "./engine-world.ts";

describe("an event of a type that only a newer release knows", () => {
  const world = useResource(createEngineWorld);
  let projectors: Role;
  let reporter: Reporter;
  const [customerId, otherCustomerId] = [randomUUID(), randomUUID()];
  let position: bigint;
  const UNKNOWN_TYPE_TEXT = "is unknown to this release; use the newer release that wrote it";

  function startRoles(): void {
    projectors = startProjectors({ ...world, models: readModels, logger });
    reporter = startReporter({ ...world, roles: [projectors], metrics: createMetrics(), logger });
  }
  async function stopRoles(): Promise<void> {
    await projectors.stop();
    await reporter.stop();
  }
  before(async () => {
    await world.append(`customer-${customerId}`, createRegisteredEvent(customerId, "Ana"));
    await world.append("elsewhere-1", { type: "NothingOfOurs", data: {} });
    position = await world.append(`customer-${customerId}`, { type: "CustomerPraised", data: {} });
    await world.append(`customer-${customerId}`, createRenamedEvent(customerId, "Ana K"));
    await world.append(`customer-${otherCustomerId}`, createRegisteredEvent(otherCustomerId, "Bor"));
    startRoles();
  });

  after(async () => {
    await stopRoles();
  });

  it("projectors quarantine only the stream of an event of an unknown type, also after a restart", async () => {
    await eventually("the other stream", async () => (await world.readName(otherCustomerId)) === "Bor");
    await stopRoles();
    startRoles();
    await eventually("running", () => projectors.getStatus().state === "running");
    expect(await world.readName(customerId)).to.equal("Ana");
    const quarantinedStreams = await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA);
    expect([...quarantinedStreams.keys()]).to.deep.equal([`customer-${customerId}`]);
    expect(quarantinedStreams.get(`customer-${customerId}`)).to.deep.include({
      revision: 1n,
      position,
      eventType: "CustomerPraised",
      cause: `CustomerPraised ${UNKNOWN_TYPE_TEXT}`,
      events: 2n,
    });
  });

  it("a command that reads a stream with an event of an unknown type fails", async () => {
    const error = await world.log.read(`customer-${customerId}`).catch((error: Error) => error);
    expect(error).to.be.instanceOf(EventSchemaError);
    expect((error as Error).message).to.equal(`CustomerPraised ${UNKNOWN_TYPE_TEXT}`);
  });

  it("a quarantine decision of an unknown type stops neither projectors nor commands, and later decisions are effective", async () => {
    await world.append(QUARANTINE_STREAM, { type: "StreamForgiven", data: {} });
    await stopRoles();
    startRoles();
    const laterCustomerId = randomUUID();
    await world.append(`customer-${laterCustomerId}`, createRegisteredEvent(laterCustomerId, "Cai"));
    await eventually("the later stream", async () => (await world.readName(laterCustomerId)) === "Cai");
    expect(await isLogAvailable(world.log)).to.equal(true);
    const { stdout } = await world.runCommand("status");
    expect(stdout).to.contain(`stream ${QUARANTINE_STREAM}, from revision 0 on: 1 event skipped`);
    const resumed = await world.runCommand("resume", String(position), "--reason", "another try");
    expect(resumed.stdout + resumed.stderr).to.contain(UNKNOWN_TYPE_TEXT);
    expect((await readQuarantineDecisions(world.client)).lastRevision).to.equal(1n);
    await eventually("the replay after the decision", async () => {
      const quarantined = (await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA)).get(`customer-${customerId}`);
      return quarantined?.replayedAfterDecision === 1n;
    });
  });
});
