import { join } from "node:path";
import { expect } from "chai";
import { type LogServer, startLogServer } from "../../../deploy/local/eventstore/server.ts";
import {
  createPartnerWorld,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
  type TestCommand,
} from "../../support/partner.ts";
import { mountSmallDisk, type SmallDisk } from "../../support/small-disk.ts";

describe("the command service while the disk of the event log is full", function () {
  this.timeout(60_000);
  let disk: SmallDisk;
  let log: LogServer;
  let command: TestCommand;
  let world: PartnerWorld;

  before(async function () {
    disk = mountSmallDisk(this, 8);
    log = await startLogServer({ dir: join(disk.folder, "log"), host: "127.0.0.1", port: 0 });
    command = await startTestCommandService({ EVENTSTORE_URL: `esdb://127.0.0.1:${log.port}?tls=false` });
    world = await createPartnerWorld(command);
  });
  after(async () => {
    await command?.stop();
    await log?.stop();
    disk?.remove();
  });

  const createAppointment = (key: string) =>
    sendRequest(
      "POST",
      `${command.url}/production/v1/appointments`,
      { ...world.headers, "Idempotency-Key": key },
      { branchId: world.branchId, animalId: world.animalId, scheduledAt: "2099-05-04T10:00:00Z" },
    );

  it("the command service returns 503 with Retry-After while the event log's disk is full, and 201 afterwards", async () => {
    disk.fill();
    // The first requests may succeed, because the last page of the log's file may have space for a few small events.
    let response = await createAppointment("filling-0");
    for (let n = 1; response.status === 201 && n < 50; n += 1) response = await createAppointment(`filling-${n}`);
    expect(response.status).to.equal(503);
    expect(response.body).to.include({ ok: false, error: "event_log_unavailable" });
    expect(Number(response.headers.get("retry-after"))).to.be.above(0);
    expect(
      (await sendRequest("GET", `${command.url}/health/ready`)).status,
      "readiness while the log is readable",
    ).to.equal(200);
    disk.free();
    expect((await createAppointment("afterwards")).status).to.equal(201);
  });
});
