import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { ask, createPartnerWorld, startTestCommand, type TestCommand } from "../support/partner.ts";
import { expectRefusal, type RawResponse, sendRaw } from "../support/raw-http.ts";

/** Fewer than the token requests a minute that one address has. */
const CLIENTS = 500;

describe("command, before clients that send half a body", () => {
  let command: TestCommand;

  before(async () => {
    command = await startTestCommand();
  });
  after(() => command.stop());

  it("takes a create at once while 500 token requests are half sent, and answers each of those 408", async () => {
    const world = await createPartnerWorld(command, "sandbox");
    const url = `${command.url}/sandbox/v1/appointments`;
    const { branchId, animalId } = world;
    const body = { branchId, animalId, scheduledAt: "2099-05-04T10:00:00Z" };
    // Anybody may send a body here: it is read before the credentials in it are.
    const head = "POST /sandbox/v1/oauth/token HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n";
    const bytes = `${head}Content-Length: 200\r\n\r\n{"client_id":`;
    const half = Array.from({ length: CLIENTS }, () => sendRaw(command.url, bytes));
    let ended = 0;
    for (const one of half) one.finally(() => ended++).catch(() => undefined);
    const headers = { ...world.headers, "Idempotency-Key": `whole-${randomUUID()}` };
    expect((await ask("POST", url, headers, body)).status).to.equal(201);
    expect(ended, "half-sent requests that have ended").to.equal(0);
    for (const answers of await Promise.all(half)) {
      expect(answers).to.have.length(1);
      expectRefusal(answers[0] as RawResponse, 408, "request_timeout");
    }
  });
});
