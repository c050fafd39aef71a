import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { pino } from "pino";
import { listen } from "../../../shared/http/listen.ts";
import { limitResponseTime } from "../../../shared/http/response-timeout.ts";
import { postAppointment, serveCommandApp } from "../../command/partner-api/command-app.ts";
import { connectToLog } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { createPartnerWorld, type PartnerWorld, startTestCommandService } from "../../support/partner.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { useResource } from "../../support/resources.ts";
import { createSilentApp } from "../../support/silent-app.ts";
import { getTestServers } from "../../support/stack.ts";

/**
 * Delay of each request to the event log. A single request stays within its time limit. Together, the five requests of
 * a create exceed RESPONSE_TIMEOUT_MS. Milliseconds.
 */
const REQUEST_DELAY_MS = 400;
const RESPONSE_TIMEOUT_MS = 1_000;

describe("a request that times out before the handler ends", () => {
  /** Sends a request whose handler ends only after the response was sent. */
  const sendLateRequest = async (endHandler: () => void) => {
    const lines: Record<string, unknown>[] = [];
    const logger = pino({ base: null }, { write: (line: string) => lines.push(JSON.parse(line)) });
    const app = createSilentApp({ logger });
    app.use(limitResponseTime(10, "event_log_unavailable"));
    let release = () => {};
    const releasePromise = new Promise<void>((resolve) => {
      release = resolve;
    });
    app.use(() => releasePromise.then(endHandler));
    const server = await listen(app.callback(), "127.0.0.1", 0);
    const { status } = await fetch(server.url);
    release();
    await server.close();
    const findLateLine = () => lines.find(({ msg }) => /after 503 was sent/.test(String(msg)));
    return {
      status,
      lateLine: (await eventually("the late outcome is logged", findLateLine)) as Record<string, unknown>,
    };
  };

  it("if a handler succeeds after 503 was sent, the success is logged", async () => {
    const { status, lateLine } = await sendLateRequest(() => undefined);
    expect(status).to.equal(503);
    expect(lateLine.msg).to.equal("request succeeded after 503 was sent");
    expect(lateLine.duration).to.be.a("number");
    expect(lateLine.correlationId).to.be.a("string");
  });

  it("if a handler fails after 503 was sent, the error is logged", async () => {
    const { lateLine } = await sendLateRequest(() => {
      throw new Error("broken");
    });
    expect(lateLine.msg).to.equal("request failed after 503 was sent");
    expect(lateLine).to.have.property("error");
  });
});

describe("a command while the event log is slow", () => {
  const command = useResource(startTestCommandService);
  let proxy: FaultProxy;
  let slowCommand: Awaited<ReturnType<typeof serveCommandApp>>;
  let world: PartnerWorld;
  let client: ReturnType<typeof connectToLog>;
  const lines: Record<string, unknown>[] = [];
  let onRead = (_stream: string) => {};

  before(async () => {
    world = await createPartnerWorld(command);
    const { eventstoreUrl } = await getTestServers();
    proxy = await startFaultProxy(eventstoreUrl.replace(/^esdb:/, "http:"));
    client = connectToLog(proxy.url.replace(/^http:/, "esdb:"));
    const readStream = client.readStream.bind(client);
    Object.assign(client, {
      readStream: (...args: Parameters<typeof readStream>) => {
        onRead(args[0]);
        return readStream(...args);
      },
    });
    const log = createPlainLog(client);
    const count = async () => ({ used: 1, endsAt: Date.now(), endsInMs: 1 });
    slowCommand = await serveCommandApp(command, {
      logger: pino({ base: null }, { write: (line: string) => lines.push(JSON.parse(line)) }),
      log,
      limiter: { count, findExcess: () => undefined, release: async () => undefined, close: () => undefined },
      responseTimeoutMs: RESPONSE_TIMEOUT_MS,
    });
  });
  after(() => slowCommand.stop());

  const createAppointment = (url: string, key: string) => postAppointment(url, world, key);

  it("if the event log is slow, creating an appointment returns 503 in time, and retries create only one appointment", async () => {
    await eventually("the service responds in time while the log is fast", async () => {
      return (await createAppointment(slowCommand.url, randomUUID())).status === 201;
    });
    proxy.delay(REQUEST_DELAY_MS);
    const keys = Array.from({ length: 56 }, () => randomUUID());
    const responses = await Promise.all(keys.map((key) => createAppointment(slowCommand.url, key)));
    proxy.delay(0);
    for (const { status, body } of responses)
      expect([status, body.error]).to.deep.equal([503, "event_log_unavailable"]);
    const firstRetries = await Promise.all(keys.map((key) => createAppointment(command.url, key)));
    const secondRetries = await Promise.all(keys.map((key) => createAppointment(command.url, key)));
    expect(firstRetries.map(({ status }) => status)).to.deep.equal(Array(56).fill(201));
    expect(secondRetries.map(({ text }) => text)).to.deep.equal(firstRetries.map(({ text }) => text));
  });

  it("after 503 was sent, a command reads no further page of its stream", async () => {
    const key = randomUUID();
    const { appointment } = (await createAppointment(command.url, key)).body;
    const stream = `appointment-${appointment.id}`;
    const { revision, metadata } = (await command.log.readLast(stream))!;
    const data = { appointmentId: appointment.id, assignmentId: randomUUID() };
    const releases = Array.from({ length: 500 }, () => {
      return { id: randomUUID(), event: { type: "ResourceReleased", data } as const, metadata };
    });
    await command.log.append(stream, revision, releases);
    let pageCount = 0;
    onRead = (name) => {
      if (name !== stream) return;
      pageCount += 1;
      proxy.delay(2 * RESPONSE_TIMEOUT_MS);
    };
    const countLateLines = () => lines.filter(({ msg }) => msg === "request failed after 503 was sent").length;
    // On a busy machine, the time can be over before the command reads its stream.
    await eventually("a page is requested before 503 is sent", async () => {
      lines.length = 0;
      proxy.delay(0);
      expect((await createAppointment(slowCommand.url, key)).status).to.equal(503);
      await eventually("the late outcome is logged", () => countLateLines() > 0);
      return pageCount > 0;
    });
    expect(pageCount).to.equal(1);
    onRead = (name) => {
      if (name === stream) pageCount += 1;
    };
    proxy.delay(0);
    await eventually("the response", async () => (await createAppointment(slowCommand.url, key)).status === 201);
    expect(pageCount).to.be.at.least(3);
  });
});
