import { randomUUID } from "node:crypto";
import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { type ConnectionOptions, connect, type NatsConnection } from "nats";
import { PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { ensureEventStream, JETSTREAM_OPTIONS } from "../../../projection/nats/event-stream.ts";
import { publishEvents } from "../../../projection/relay/publish.ts";
import { Arrivals } from "../../../projection/webhooks/match/dispatcher.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { type RunningProgram, SAMPLES_FOLDER, startProgram } from "../../docs/sample-programs.ts";
import { eventually } from "../../support/eventually.ts";
import { type NatsServer, startNatsServer } from "../../support/nats-server.ts";
import { makeTestRoot } from "../../support/stack.ts";

const document = readFileSync(path.join(PROJECT_FOLDER, "docs/operations/nats.md"), "utf8");
const machineConfig = readFileSync(path.join(PROJECT_FOLDER, "deploy/machines/nats.conf"), "utf8");

/** Names that the relay uses for a database called `clinic`, as in the document. */
const stream = { name: "clinic_public_events_clinic", subjectPrefix: "clinic.public_events.clinic", replicas: 1 };
const subject = `${stream.subjectPrefix}.production.sandbox.reset`;

describe("programs that subscribe to public events in NATS", () => {
  const logger = createLogger("test", "silent");
  let server: NatsServer;
  let service: NatsConnection;
  let lastPosition = -1n;

  before(async () => {
    const users = [extract(machineConfig, /users: \[([\s\S]*?)\n {2}\]/), extract(document, /^```\n(\{[\s\S]*?)^```/m)];
    server = await startNatsServer(`
      NATS_PASSWORD: "service"
      REPORTING_PASSWORD: "reporting"
      jetstream { store_dir: ${JSON.stringify(makeTestRoot())} }
      authorization { users: [${users.join("\n")}] }`);
    service = await connect({ servers: server.host, user: "clinic", pass: "service" });
    await ensureEventStream(await service.jetstreamManager(JETSTREAM_OPTIONS), stream, logger);
  });
  after(async () => {
    await service.close();
  });

  const connectSubscriber = (options?: ConnectionOptions) =>
    connect({
      servers: server.host,
      user: "reporting",
      pass: "reporting",
      inboxPrefix: "_INBOX_reporting",
      ...options,
    });
  /** Publishes an event as the relay does. @returns id of the event */
  const publish = async (isLate = false): Promise<string> => {
    const eventId = randomUUID();
    const position = lastPosition + 10n;
    const data = { sandbox: { generation: 1, day: "2026-11-30" } };
    const ids = { clinicId: randomUUID(), branchId: null, appointmentId: null, animalId: null };
    const event = { eventId, type: "sandbox.reset", occurredAt: "2026-11-30T00:00:00Z", ...ids, data };
    const jetStream = service.jetstream(JETSTREAM_OPTIONS);
    const deps = { pool: undefined as never, jetStream, stream, logger, maxPayloadBytes: 1e6 };
    const published = { eventId, position, environment: "production" as const, traceparent: null, isLate, event };
    await publishEvents(deps, [published], lastPosition);
    if (!isLate) lastPosition = position;
    return eventId;
  };

  it("the example of docs/operations/nats.md gets each event, and continues after its last one", async () => {
    const eventIds = [await publish(), await publish()];
    const program = startExample(server.host);
    await awaitEvents(program, eventIds);
    expect(program.lines[0]).to.match(new RegExp(`^9 ${subject} \\{"id":"${eventIds[0]}","type":"sandbox.reset",`));
    await program.stop();
    const laterIds = [await publish(), await publish()];
    const secondProgram = startExample(server.host);
    await awaitEvents(secondProgram, laterIds);
    await secondProgram.stop();
  });

  it("a message names the one before it, unless it is late", async () => {
    const subscriber = await connectSubscriber();
    const subscription = subscriber.subscribe(`${stream.subjectPrefix}.>`, { max: 3 });
    await subscriber.flush();
    const firstPosition = lastPosition;
    for (const isLate of [false, true, false]) await publish(isLate);
    const found: (string | undefined)[][] = [];
    for await (const { headers } of subscription)
      found.push(
        ["Clinic-Position", "Clinic-Previous-Position", "Clinic-Late"].map((name) => headers?.get(name) || undefined),
      );
    const [first, second] = [firstPosition + 10n, firstPosition + 20n].map(String);
    expect(found).to.deep.equal([
      [first, String(firstPosition), undefined],
      [second, undefined, "true"],
      [second, first, undefined],
    ]);
    await subscriber.close();
  });

  it("the user of deploy/machines/nats.conf has all rights that relay and dispatcher need", async () => {
    const endController = new AbortController();
    const followPromise = new Arrivals().follow(service, stream, endController.signal);
    await publish();
    // NATS reports a missing right before it answers the flush. The report ends the subscription.
    await service.flush();
    endController.abort();
    await followPromise;
  });

  it("the user of the document can neither publish, nor change the stream, nor read responses to others", async () => {
    const subscriber = await connectSubscriber();
    const countMessages = async () =>
      (await (await service.jetstreamManager(JETSTREAM_OPTIONS)).streams.info(stream.name)).state.messages;
    const count = await countMessages();
    for (const refusedSubject of [
      subject,
      `$JS.API.STREAM.PURGE.${stream.name}`,
      `$JS.API.STREAM.UPDATE.${stream.name}`,
      `$JS.API.STREAM.DELETE.${stream.name}`,
      `$JS.API.STREAM.MSG.DELETE.${stream.name}`,
      "$JS.API.STREAM.CREATE.other",
      "$JS.API.CONSUMER.CREATE.other.reporting",
      "_INBOX.someone",
    ]) {
      const error = await subscriber.request(refusedSubject, "", { timeout: 5_000 }).then(
        () => undefined,
        ({ code }: { code: string }) => code,
      );
      expect(error, refusedSubject).to.equal("PERMISSIONS_VIOLATION");
    }
    expect(await countMessages()).to.equal(count);
    const errorPromise = new Promise((resolve) =>
      subscriber.subscribe("_INBOX.>", { callback: (error) => resolve((error as { code?: string } | null)?.code) }),
    );
    expect(await errorPromise).to.equal("PERMISSIONS_VIOLATION");
    await subscriber.close();
  });
});

function extract(text: string, pattern: RegExp): string {
  const part = pattern.exec(text)?.[1];
  if (part === undefined) throw new Error(`The text does not contain ${pattern}.`);
  return part;
}

/** Starts the document's example program without changes. */
function startExample(host: string): RunningProgram {
  const folder = makeTestRoot();
  writeFileSync(path.join(folder, "subscribe.mts"), extract(document, /^```ts\n([\s\S]*?)^```/m));
  symlinkSync(path.join(PROJECT_FOLDER, "node_modules"), path.join(folder, "node_modules"));
  const command = [process.execPath, "--import", import.meta.resolve("tsx"), "subscribe.mts"] as const;
  return startProgram(
    command,
    { NATS_SERVERS: host, NATS_PASSWORD: "reporting" },
    path.relative(SAMPLES_FOLDER, folder),
  );
}

/** Waits until the program has printed exactly the given events, in any order. */
async function awaitEvents(program: RunningProgram, eventIds: readonly string[]): Promise<void> {
  await eventually("the events", () => {
    const failure = program.getFailure();
    if (failure !== undefined) throw new Error(failure);
    return program.lines.length >= eventIds.length;
  });
  const ids = program.lines.map((line) => JSON.parse(line.slice(line.indexOf("{"))).id as string);
  expect(ids).to.have.members(eventIds);
}
