import { randomUUID } from "node:crypto";
import { connect, createServer } from "node:net";
import { isDeepStrictEqual } from "node:util";
import { expect } from "chai";
import { recordErasure } from "../../../command/operations/personal-data/record-erasure.ts";
import { derivePartnerAppointmentId } from "../../../shared/domain/events/ids.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { sharedDataKeys } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerResponse,
  type PartnerWorld,
  sendTokenRequest,
  startTestCommandService,
} from "../../support/partner.ts";
import { useResource } from "../../support/resources.ts";
import { getTestServers } from "../../support/stack.ts";
import { postAppointment, serveCommandApp, spawnCommand } from "./command-app.ts";

describe("idempotency of createPartnerAppointment", () => {
  const command = useResource(startTestCommandService);
  let world: PartnerWorld;

  before(async () => {
    world = await createPartnerWorld(command);
  });

  const createAppointment = (url: string, key: string, overrides = {}, headers = world.headers) =>
    postAppointment(url, { ...world, headers }, key, overrides);
  const readEvents = (idempotencyKey: string) =>
    command.log.read(`appointment-${derivePartnerAppointmentId({ ...world, sandboxGeneration: 0, idempotencyKey })}`);
  /**
   * Returns the partner's headers with a token from the given service, because services have different signing keys.
   */
  const createHeadersAt = async (url: string) => {
    const { body } = await sendTokenRequest(url, world);
    return { ...world.headers, Authorization: `Bearer ${body.access_token}` };
  };
  const isReplay = ({ headers }: PartnerResponse) => headers.get("Idempotent-Replayed") === "true";

  it("if fifty concurrent requests use one idempotency key for two bodies, all requests with one of the bodies get 409", async () => {
    const key = randomUUID();
    const bodies = Array.from({ length: 50 }, (_, index) => ({ notes: index % 2 ? "odd" : "even" }));
    const responses = await Promise.all(bodies.map((overrides) => createAppointment(command.url, key, overrides)));
    const createdResponses = responses.filter(({ status }) => status === 201);
    const conflictResponses = responses.filter(({ status }) => status === 409);
    expect([createdResponses.length, conflictResponses.length]).to.deep.equal([25, 25]);
    expect(new Set(createdResponses.map(({ text }) => text)).size).to.equal(1);
    expect(createdResponses.filter((response) => !isReplay(response))).to.have.length(1);
    expect(new Set(conflictResponses.map(({ body }) => body.error))).to.deep.equal(new Set(["idempotency_conflict"]));
    const events = await readEvents(key);
    expect(events).to.have.length(1);
    expect(events[0]?.data).to.include({ notes: createdResponses[0]?.body.appointment.notes });
  });

  it("a process repeats a recent response without notes without the appointment's stream", async () => {
    const logCalls: string[] = [];
    const log: EventLog = {
      ...command.log,
      read: (stream, lastRevision) => {
        logCalls.push(`read ${stream.split("-")[0]}`);
        return command.log.read(stream, lastRevision);
      },
      append: (stream, revision, events) => {
        logCalls.push(`append ${stream.split("-")[0]}`);
        return command.log.append(stream, revision, events);
      },
    };
    const service = await serveCommandApp(command, { log });
    const key = randomUUID();
    const firstResponse = await createAppointment(service.url, key);
    expect(logCalls.filter((logCall) => logCall.endsWith("appointment"))).to.deep.equal(["append appointment"]);
    const secondResponse = await createAppointment(service.url, key);
    expect([secondResponse.text, isReplay(secondResponse)]).to.deep.equal([firstResponse.text, true]);
    expect((await createAppointment(service.url, key, { notes: "other" })).body.error).to.equal("idempotency_conflict");
    expect(logCalls.filter((logCall) => logCall.endsWith("appointment"))).to.have.length(1);
  });

  it("an idempotency key is effective across several processes and a restart", async () => {
    const key = randomUUID();
    const secondCommand = await startTestCommandService();
    const secondHeaders = await createHeadersAt(secondCommand.url);
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        index % 2 ? createAppointment(command.url, key) : createAppointment(secondCommand.url, key, {}, secondHeaders),
      ),
    );
    await secondCommand.stop();
    const restartedCommand = await startTestCommandService();
    const restartedHeaders = await createHeadersAt(restartedCommand.url);
    const repeatedResponse = await createAppointment(restartedCommand.url, key, {}, restartedHeaders);
    const otherBody = { notes: "other" };
    const conflictResponse = await createAppointment(restartedCommand.url, key, otherBody, restartedHeaders);
    await restartedCommand.stop();
    expect(new Set([...responses, repeatedResponse].map(({ status }) => status))).to.deep.equal(new Set([201]));
    expect(new Set([...responses, repeatedResponse].map(({ text }) => text)).size).to.equal(1);
    expect(responses.filter((response) => !isReplay(response))).to.have.length(1);
    expect([isReplay(repeatedResponse), conflictResponse.status]).to.deep.equal([true, 409]);
    expect(await readEvents(key)).to.have.length(1);
  });

  it("after an erasure of notes, a repeated request with any notes returns null, also after a restart", async () => {
    const { clinicId, customerId } = world;
    const [key, keyWithoutNotes] = [randomUUID(), randomUUID()];
    await createAppointment(command.url, key, { notes: "Bites" });
    await createAppointment(command.url, keyWithoutNotes);
    const erasure = { categories: ["notes" as const], cause: "request" as const, reason: "Request 17" };
    await recordErasure.customer(command.log, { id: customerId, clinicId, ...erasure }, createTestOperatorContext());
    await sharedDataKeys.destroy({ type: "customer", id: customerId }, erasure.categories);
    const readAnswers = async (url: string, headers = world.headers) => {
      const answers: unknown[] = [];
      for (const overrides of [{ notes: "Bites" }, { notes: "other" }, {}, { scheduledAt: "2099-05-04T11:00:00Z" }]) {
        const { status, body } = await createAppointment(url, key, overrides, headers);
        answers.push([status, status === 201 ? body.appointment.notes : body.error]);
      }
      const { status, body } = await createAppointment(url, keyWithoutNotes, { notes: "other" }, headers);
      return [...answers, [status, body.error]];
    };
    const conflict = [409, "idempotency_conflict"];
    const expectedAnswers = [...Array(3).fill([201, null]), conflict, conflict];
    await eventually("the key has left the memory of the process", async () => {
      return isDeepStrictEqual(await readAnswers(command.url), expectedAnswers);
    });
    const restartedCommand = await startTestCommandService();
    const restartedHeaders = await createHeadersAt(restartedCommand.url);
    expect(await readAnswers(restartedCommand.url, restartedHeaders)).to.deep.equal(expectedAnswers);
    await restartedCommand.stop();
  });

  it("an idempotency key is effective even if the process is killed after the append and before the response", async () => {
    const key = randomUUID();
    const proxy = await startDroppingProxy((await getTestServers()).eventstoreUrl, "AppointmentRequested");
    const killedCommand = await spawnCommand(command, proxy.url);
    const outcomePromise = createAppointment(killedCommand.url, key).then(
      () => "received a response",
      () => "cut off",
    );
    await eventually("the append is done", async () => (await readEvents(key)).length === 1);
    await killedCommand.stop("SIGKILL");
    expect(await outcomePromise).to.equal("cut off");
    await proxy.close();
    const retryResponse = await createAppointment(command.url, key);
    expect([retryResponse.status, isReplay(retryResponse)]).to.deep.equal([201, true]);
    expect((await createAppointment(command.url, key, { notes: "other" })).status).to.equal(409);
    expect(await readEvents(key)).to.have.length(1);
  });
});

/**
 * Starts a TCP proxy to the event log. It drops all responses after it has forwarded a request that contains `text`.
 */
async function startDroppingProxy(logUrl: string, text: string) {
  const { hostname, port } = new URL(logUrl);
  let isDropping = false;
  const server = createServer((clientSocket) => {
    const logSocket = connect(Number(port), hostname);
    clientSocket.on("data", (bytes) => {
      isDropping ||= bytes.includes(text);
      logSocket.write(bytes);
    });
    logSocket.on("data", (bytes) => isDropping || clientSocket.write(bytes));
    for (const [source, target] of [
      [clientSocket, logSocket],
      [logSocket, clientSocket],
    ] as const) {
      source.on("error", () => target.destroy());
      source.on("close", () => target.destroy());
    }
  });
  const { host, close } = await listenOnLoopback(server);
  return { url: `esdb://${host}?tls=false`, close };
}
