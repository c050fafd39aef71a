import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import path from "node:path";
import { expect } from "chai";
import { type CloudEvent, HTTP } from "cloudevents";
import { Webhook } from "standardwebhooks";
import { findOnPath } from "../../deploy/local/setup/system-package.ts";
import { requirements } from "../../query-api/portal/authorization.ts";
import { deliveredEventType } from "../../shared/domain/events/partner.ts";
import { partnerOperations } from "../../shared/partner-api/operations.ts";
import { eventually } from "../support/eventually.ts";
import { findFreePort } from "../support/free-ports.ts";
import type { Partner } from "../support/partner-api.ts";
import { partnerDocument } from "../support/partner-document.ts";
import { startReceiver } from "../support/receiver.ts";
import { makeTestRoot } from "../support/stack.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../support/webhook-libraries.ts";
import { type BusyProxy, startBusyProxy } from "./busy-proxy.ts";
import { type DocumentedService, startDocumentedService } from "./documented-service.ts";
import { checkGeneratedFile } from "./generated-file.ts";
import { recordPartnerApi } from "./partner-recording.ts";
import { recordPortalApi } from "./portal-recording.ts";
import { createCollection } from "./postman-collection.ts";
import { runCollection } from "./run-collection.ts";
import { isInstalled, languages, type RunningProgram, run, skip, startReceiverProgram } from "./sample-programs.ts";
import { runGeneratedClient } from "./typescript-client.ts";

interface AppointmentData {
  appointment?: { id: string; clinicId: string };
}

/** Time limit of a test in milliseconds. A test compiles up to two programs. */
const TEST_TIMEOUT_MS = 300_000;

/** Runs the example programs against the partner API. An example is skipped if its language is not installed. */
describe("the examples of the partner guide", function () {
  this.timeout(TEST_TIMEOUT_MS);
  let service: DocumentedService;
  let partner: Partner;
  let env: Record<string, string>;
  let clinicHeaders: Record<string, string>;
  let proxy: BusyProxy;

  before(async () => {
    service = await startDocumentedService();
    ({ partner, env } = await service.createSandboxPartner());
    const { body } = await partner.request("GET", "/sandbox");
    clinicHeaders = { "X-SERVICE-Clinic-ID": body.sandbox.clinicId };
    proxy = await startBusyProxy(service.origin);
  });

  for (const language of languages) {
    it(`the ${language.name} examples repeat a refused request, and accept only authentic webhooks`, async function () {
      if (!(await isInstalled(language))) return skip(this, language.createCommand[0]);
      const port = await findFreePort();
      const url = `http://127.0.0.1:${port}/webhooks`;
      const registration = await partner.request("POST", "/webhook-endpoints", {
        headers: clinicHeaders,
        body: { url, events: ["appointment.created"] },
      });
      const { endpoint, secret } = registration.body;
      const receiver = startReceiverProgram(language, port, secret, makeTestRoot());
      try {
        await awaitReceiver(receiver, url);
        const output = await run(language.createCommand, { ...env, API: `${proxy.url}/sandbox/v1` }, language.folder);
        const [appointmentId, status] = output.trim().split(" ");
        expect(appointmentId).to.match(/^[0-9a-f-]{36}$/);
        expect(status).to.equal("requested");
        const eventId = await awaitDelivery(endpoint.id);
        await checkVerification(url, secret);
        await eventually("the receiver prints two events", () => receiver.lines.length === 2);
        expect(receiver.lines).to.deep.equal([`appointment.created ${eventId}`, "appointment.updated last"]);
      } finally {
        await receiver.stop();
        await partner.request("DELETE", `/webhook-endpoints/${endpoint.id}`, { headers: clinicHeaders });
      }
    });
  }

  it("the curl examples register an endpoint, create an appointment and verify its webhook", async function () {
    if (!["curl", "jq", "openssl"].every(findOnPath)) return skip(this, "curl, jq or openssl");
    const receiver = await startReceiver();
    const steps = [
      "token",
      "read-sandbox",
      "register-endpoint",
      "create-appointment",
      "book-free-time",
      "send-test-event",
    ];
    const script = [...steps.map((name) => `. ./${name}.sh`), 'echo "secret $WEBHOOK_SECRET"'].join("\n");
    const output = await run(["sh", "-euc", script], { ...env, WEBHOOK_URL: `${receiver.url}/hooks` }, "curl");
    expect(output)
      .to.contain('"allocationStart": ')
      .and.contain('"status": "requested"')
      .and.contain('"status": "pending"');
    const { body, headers } = await eventually("a webhook", () => receiver.requests[0]);
    const bodyFile = path.join(makeTestRoot(), "body.json");
    await writeFile(bodyFile, body);
    const verificationEnv = {
      WEBHOOK_SECRET: /^secret (.*)$/m.exec(output)?.[1] ?? "",
      DELIVERY_ID: String(headers["webhook-id"]),
      TIMESTAMP: String(headers["webhook-timestamp"]),
      SIGNATURE: String(headers["webhook-signature"]),
      BODY_FILE: bodyFile,
    };
    const verify = (changes: Record<string, string> = {}) =>
      run(["sh", "verify-webhook.sh"], { ...verificationEnv, ...changes }, "curl");
    expect(await verify()).to.equal("The signature is valid.\n");
    expect(await verify({ SIGNATURE: `v1,other ${verificationEnv.SIGNATURE}` })).to.contain("is valid");
    expect(await catchMessage(verify({ DELIVERY_ID: "other" }))).to.contain("The signature is not valid.");
    const oldTimestamp = String(Math.floor(Date.now() / 1000) - 301);
    expect(await catchMessage(verify({ TIMESTAMP: oldTimestamp }))).to.contain("more than five minutes");
  });

  it("the OpenAPI document of the partner API contains recorded examples of all operations and events", async () => {
    const recording = await recordPartnerApi(service);
    expect(Object.keys(recording.operations)).to.have.members(Object.keys(partnerOperations));
    expect(Object.keys(recording.events)).to.have.members(deliveredEventType.options);
    await checkGeneratedFile(toExamplesFile("partner"), toJson(recording));
  });

  it("the OpenAPI document of the portal API contains recorded examples of all operations", async () => {
    const recording = await recordPortalApi();
    expect(Object.keys(recording.operations)).to.have.members(Object.keys(requirements));
    await checkGeneratedFile(toExamplesFile("portal"), toJson(recording));
  });

  it("a generated TypeScript client compiles strictly, creates an appointment and receives its webhook", async () => {
    const { env: otherEnv } = await service.createSandboxPartner();
    const output = await runGeneratedClient(partnerDocument, otherEnv);
    expect(output).to.equal("Sandbox Clinic\nappointment.created true\ntrue\n");
  });

  it("an endpoint with the format `cloudevents` receives events that the SDK of CloudEvents accepts", async () => {
    const receiver = await startReceiver();
    const registration = await partner.request("POST", "/webhook-endpoints", {
      headers: clinicHeaders,
      body: { url: receiver.url, events: ["appointment.created"] },
    });
    const { endpoint, secret } = registration.body;
    const endpointPath = `/webhook-endpoints/${endpoint.id}`;
    const request = (method: "PATCH" | "POST" | "GET" | "DELETE", path: string, body?: object) =>
      partner.request(method, endpointPath + path, { headers: clinicHeaders, ...(body && { body }) });
    await request("PATCH", "", { bodyFormat: "cloudevents" });
    await request("POST", "/test");
    await eventually("the test event", () => receiver.requests.length === 1);
    await run(languages[0]!.createCommand, env, languages[0]!.folder);
    await eventually("the appointment event", () => receiver.requests.length === 2);
    const events = receiver.requests.map(({ headers, body }) => {
      expect(listAcceptingLibraries(secret, { headers, body })).to.deep.equal(webhookLibraryNames);
      expect(headers["content-type"]).to.equal("application/cloudevents+json");
      return HTTP.toEvent({ headers: headers as Record<string, string>, body }) as CloudEvent<AppointmentData>;
    });
    const [testEvent, appointmentEvent] = events;
    expect(testEvent).to.include({ type: "endpoint.test", specversion: "1.0" }).and.not.have.property("branchid");
    expect(testEvent?.data).to.deep.equal({ test: true });
    const { id, clinicId } = appointmentEvent?.data?.appointment ?? {};
    expect(appointmentEvent).to.include({ type: "appointment.created", subject: id, source: `urn:uuid:${clinicId}` });
    expect(events.map((event) => event.validate())).to.deep.equal([true, true]);
    const { body } = await request("GET", `/deliveries/${receiver.requests[1]?.headers["webhook-id"]}`);
    expect(body.delivery.request.body).to.equal(receiver.requests[1]?.body);
    expect(body.delivery.request.headers["Content-Type"]).to.equal("application/cloudevents+json");
    await request("DELETE", "");
  });

  it("the Postman collection is current, and its requests succeed in order", async () => {
    const collection = createCollection(partnerDocument);
    await checkGeneratedFile("docs/partner-api.postman_collection.json", toJson(collection));
    const { env: otherEnv } = await service.createSandboxPartner();
    const statuses = await runCollection(collection, {
      ...{
        baseUrl: service.sandboxUrl,
        clientId: otherEnv.CLIENT_ID ?? "",
        clientSecret: otherEnv.CLIENT_SECRET ?? "",
      },
    });
    expect(Object.keys(statuses)).to.have.length(Object.keys(partnerOperations).length);
    // The collection withdraws the link before. The only delivery is a test, which has not failed.
    const refusals = Object.entries(statuses).filter(([, status]) => status > 299);
    expect(refusals).to.deep.equal([
      ["End an animal link", 404],
      ["Replay a failed delivery", 409],
    ]);
  });

  const toExamplesFile = (api: string) => `query-api/docs/assets/${api}-examples.json`;
  const toJson = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

  /** Waits until the receiver responds with 400 to a request without a signature. */
  const awaitReceiver = (receiver: RunningProgram, url: string) =>
    eventually(
      "the receiver refuses a request without a signature",
      async () => {
        const failure = receiver.getFailure();
        if (failure !== undefined) throw new Error(`The receiver ended with ${failure}`);
        const response = await fetch(url, { method: "POST", body: "{}" }).catch(() => undefined);
        if (response) expect(response.status).to.equal(400);
        return response !== undefined;
      },
      TEST_TIMEOUT_MS,
    );

  /** Waits for the only delivery of an endpoint, and returns the id of its event. */
  const awaitDelivery = (endpointId: string): Promise<string> =>
    eventually("the delivery", async () => {
      const response = await partner.request("GET", `/webhook-endpoints/${endpointId}/deliveries`, {
        headers: clinicHeaders,
      });
      const [delivery] = response.body.deliveries;
      if (delivery?.status === "failed") throw new Error(`The delivery failed: ${JSON.stringify(delivery.attempts)}`);
      return delivery?.status === "delivered" && (delivery.eventId as string);
    });
});

/**
 * Sends signed, forged and incomplete requests to a receiver. The receiver must handle only the event `last`, exactly
 * once.
 */
async function checkVerification(url: string, secret: string): Promise<void> {
  const incompleteSocket = await sendIncompleteRequest(url);
  const abortedSocket = await sendIncompleteRequest(url);
  abortedSocket.destroy();
  await once(abortedSocket, "close");
  const id = randomUUID();
  const toBody = (eventId: string) => JSON.stringify({ type: "appointment.updated", id: eventId });
  const body = toBody("last");
  const post = async (changes: { ageSeconds?: number; sentBody?: string; signaturePrefix?: string } = {}) => {
    const { ageSeconds = 0, sentBody = body, signaturePrefix = "" } = changes;
    const signedAt = new Date(Date.now() - ageSeconds * 1000);
    const headers = {
      "Content-Type": "application/json",
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(signedAt.getTime() / 1000)),
      "webhook-signature": signaturePrefix + new Webhook(secret).sign(id, signedAt, body),
    };
    return (await fetch(url, { method: "POST", headers, body: sentBody })).status;
  };
  expect(await post({ sentBody: toBody("forged") }), "changed body").to.equal(400);
  expect(await post({ ageSeconds: 310 }), "old timestamp").to.equal(400);
  expect(await post({ ageSeconds: -400 }), "timestamp in the future").to.equal(400);
  // After a rotation, the header contains several signatures.
  expect(await post({ signaturePrefix: "v1,bm9uZQ== " }), "second signature").to.equal(204);
  expect(await post(), "repeated delivery").to.equal(204);
  incompleteSocket.destroy();
}

async function sendIncompleteRequest(url: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.write("POST / HTTP/1.1\r\nHost: receiver\r\nContent-Length: 2\r\n\r\n{", () => resolve());
  });
  return socket;
}

async function catchMessage(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => expect.fail("The program succeeded."),
    (error: Error) => error.message,
  );
}
