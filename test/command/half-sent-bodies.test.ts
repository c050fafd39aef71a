import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { createPartnerWorld, sendRequest, startTestCommandService, type TestCommand } from "../support/partner.ts";
import { expectRefusal, type RawResponse, sendRaw } from "../support/raw-http.ts";
import { serveCommandApp } from "./partner-api/command-app.ts";

/** Number of incomplete token requests to send. It is lower than the rate limit of one address. */
const REQUEST_COUNT = 500;

/** Time limits that are shorter than the service's 20 s, but much longer than one POST /appointments takes. */
const CLIENT_TIMEOUTS = { headersTimeoutMs: 5_000, requestTimeoutMs: 5_000 };

describe("the command service while clients send incomplete bodies", () => {
  let command: TestCommand;
  let server: Awaited<ReturnType<typeof serveCommandApp>>;

  before(async () => {
    command = await startTestCommandService();
    server = await serveCommandApp(command, {}, CLIENT_TIMEOUTS);
  });
  after(async () => {
    await server.stop();
    await command.stop();
  });

  it("POST /appointments succeeds while 500 token requests are incomplete, and each incomplete request gets 408", async () => {
    const world = await createPartnerWorld(command, "sandbox");
    const url = `${server.url}/sandbox/v1/appointments`;
    const { branchId, animalId } = world;
    const body = { branchId, animalId, scheduledAt: "2099-05-04T10:00:00Z" };
    // A token request needs no credentials before its body is read, so any client can send an incomplete body.
    const requestHead = "POST /sandbox/v1/oauth/token HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n";
    const partialRequest = `${requestHead}Content-Length: 200\r\n\r\n{"client_id":`;
    const pendingResponses = Array.from({ length: REQUEST_COUNT }, () => sendRaw(server.url, partialRequest));
    let endedCount = 0;
    for (const request of pendingResponses) request.finally(() => endedCount++).catch(() => undefined);
    const headers = { ...world.headers, "Idempotency-Key": `complete-${randomUUID()}` };
    expect((await sendRequest("POST", url, headers, body)).status).to.equal(201);
    expect(endedCount, "incomplete requests that have ended").to.equal(0);
    for (const responses of await Promise.all(pendingResponses)) {
      expect(responses).to.have.length(1);
      expectRefusal(responses[0] as RawResponse, 408, "request_timeout");
    }
  });
});
