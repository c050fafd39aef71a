import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import type pg from "pg";
import { clinicCommandLine } from "../../command/cli/command-line.ts";
import { staffCommands } from "../../command/operations/commands.ts";
import { QUARANTINE_STREAM } from "../../projection/quarantine/confirmed-types.ts";
import { categories } from "../../shared/domain/events/catalog.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { SANDBOX_LINK_CODES } from "../../shared/domain/partner/sandbox-link-code.ts";
import { isLogAvailable } from "../../shared/eventstore/stream-failure.ts";
import { runClinic } from "../command/cli/terminal.ts";
import { createEngineWorld, createRegisteredEvent } from "../projection/engine-world.ts";
import { clinicOwner, createEndpointRequests } from "../query-api/docs/endpoint-requests.ts";
import { validRequests } from "../query-api/docs/partner-requests.ts";
import type { PartnerContractWorld, SandboxPartner } from "../query-api/docs/partner-world.ts";
import { createClinicHeaders, type PartnerRequest, send } from "../query-api/docs/sandbox-request.ts";
import { connectToLog, createTestPool } from "../support/connections.ts";
import { PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
import { insertDelivery } from "../support/deliveries.ts";
import { eventually } from "../support/eventually.ts";
import { startTestCommandService } from "../support/partner.ts";
import { startPartnerApi } from "../support/partner-api.ts";
import { useResource } from "../support/resources.ts";

/** Ways to remove or hide events of a stream. */
const removals: Record<string, (client: EventStoreDBClient, stream: string) => Promise<unknown>> = {
  deleted: (client, stream) => client.deleteStream(stream),
  tombstoned: (client, stream) => client.tombstoneStream(stream),
  hidden: (client, stream) => client.setStreamMetadata(stream, { truncateBefore: 1_000 }),
  shortened: (client, stream) => client.setStreamMetadata(stream, { maxCount: 1 }),
};

describe("a stream whose events were removed", function () {
  this.timeout(900_000);
  const api = useResource(startPartnerApi);
  let client: EventStoreDBClient;
  let admin: pg.Pool;

  before(async () => {
    client = connectToLog(api.eventstoreUrl);
    admin = createTestPool(api.database.urls.projection);
  });

  it("every operation of the partner API has a defined answer if any stream lacks events", async () => {
    const problems: string[] = [];
    await createRequests();
    for (const prefix of new Set((await listNewStreams()).map((stream) => stream.replace(/-.*/, "-")))) {
      const requests: [text: string, request: PartnerRequest][] = [];
      for (const [removal, remove] of Object.entries(removals)) {
        for (const [id, request] of await createRequests()) requests.push([`${id}, ${prefix} ${removal}`, request]);
        for (const stream of await listNewStreams()) if (stream.startsWith(prefix)) await remove(client, stream);
      }
      // The aggregates of this service are not cached yet.
      const command = await startTestCommandService({
        EVENTSTORE_URL: api.eventstoreUrl,
        DATABASE_URL: api.database.urls.command,
        TOKEN_SIGNING_KEYS: JSON.stringify({ keys: [api.command.signingKey] }),
      });
      const origins = { queryOrigin: api.queryUrl, commandOrigin: command.url };
      const sendRequest = async ([text, request]: (typeof requests)[number]) => {
        const { status, body } = await send(origins, request);
        // On a busy machine, reads can exceed their deadline.
        if (status >= 500 && status !== 503) problems.push(`${text}: ${status} ${body.error}`);
      };
      await Promise.all(requests.map(sendRequest));
      await command.stop();
    }
    expect(problems).to.deep.equal([]);
  });

  /** Creates a valid request for each operation, with a new partner and new objects. */
  async function createRequests(): Promise<[id: string, request: PartnerRequest][]> {
    const { queryUrl: queryOrigin, command } = api;
    const newPartner = await api.createPartner();
    const { clinicId, branches, animals } = (await newPartner.request("GET", "/sandbox")).body.sandbox;
    const partner: SandboxPartner = { ...newPartner, clinicId, branchId: branches[0].id, animalId: animals[0].id };
    const createFailedDelivery: PartnerContractWorld["createFailedDelivery"] = async (owner, endpointId) => {
      const values = { endpointId, clinicId: owner.clinicId, applicationId: owner.applicationId };
      const kind = owner.clinicId === null ? { branchId: null, type: "installation.approved" } : { branchId: null };
      const deliveryId = await insertDelivery(admin, { ...values, environment: owner.environment, ...kind });
      return deliveryId;
    };
    const origins = { queryOrigin, commandOrigin: command.url };
    const createPartner = async () => partner;
    const world = {
      origins,
      unrestrictedPartner: partner,
      createPartner,
      createFailedDelivery,
    } as PartnerContractWorld;
    const headers = createClinicHeaders(partner);
    const link = { method: "POST" as const, path: "/animal-links", headers, body: { code: SANDBOX_LINK_CODES.valid } };
    const linkId = (await send(origins, link)).body.link.id;
    const requests = new Map<string, PartnerRequest>([
      ["linkAnimal", link],
      ["getAnimalLink", { method: "GET", path: `/animal-links/${linkId}`, headers }],
      ["endAnimalLink", { method: "DELETE", path: `/animal-links/${linkId}`, headers }],
    ]);
    const endpointIds = Object.keys(createEndpointRequests(clinicOwner)) as (keyof ReturnType<
      typeof createEndpointRequests
    >)[];
    for (const id of endpointIds) requests.set(id, await createEndpointRequests(clinicOwner)[id](partner, world));
    for (const [id, create] of Object.entries(validRequests))
      if (!requests.has(id) && !/endpoint|webhook/i.test(id)) requests.set(id, await create(partner, world));
    // A repeated request finds the appointment of the first.
    await send(origins, requests.get("createPartnerAppointment")!);
    return [...requests];
  }

  const knownStreams = new Set<string>();

  async function listNewStreams(): Promise<string[]> {
    const newStreams: string[] = [];
    for await (const { event } of client.readAll()) {
      if (!event || knownStreams.has(event.streamId)) continue;
      knownStreams.add(event.streamId);
      newStreams.push(event.streamId);
    }
    return newStreams;
  }

  it("only two functions read streams with the client, so that all reads have an answer for missing events", () => {
    const files = ["command", "projection", "query-api", "shared"].flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`),
    );
    const isReader = (file: string) =>
      file.endsWith(".ts") && /client\s*\.(readStream|subscribeToStream)\(/.test(readFileSync(file, "utf8"));
    expect(files.filter(isReader)).to.deep.equal(["shared/eventstore/log.ts", "shared/eventstore/read-log.ts"]);
  });

  it("every command of the command line is done or refused if all streams that it names are tombstoned", async () => {
    const names = new Set(staffCommands.map(({ name }) => name));
    const commands = clinicCommandLine.commands.filter(({ name }) => names.has(name));
    const ids = new Set(
      commands.flatMap(({ example }) => example.match(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g) ?? []),
    );
    for (const category of categories) for (const id of ids) await client.tombstoneStream(toStreamName(category, id));
    const env = { EVENTSTORE_URL: api.eventstoreUrl, DATABASE_URL: api.database.urls.command, PERSONAL_DATA_KEYS };
    for (const { name, example } of commands) {
      const words = example.match(/'[^']*'|\S+/g)?.map((word) => word.replaceAll("'", "")) ?? [];
      const { code, errorLines } = await runClinic([...name.split(" "), ...words], { env });
      expect([0, 3], `${name}: ${errorLines.join()}`).to.include(code);
    }
  });

  it("the projection's commands are done or refused if the stream of the operators' decisions is tombstoned", async () => {
    const world = await createEngineWorld();
    const id = randomUUID();
    const position = await world.append(`customer-${id}`, createRegisteredEvent(id, "Ana"), { type: "Odd", data: {} });
    world.startProjectors();
    await eventually("the quarantine", async () =>
      (await world.runCommand("status")).stdout.includes(`position ${position}, stream customer-${id}`),
    );
    await world.client.tombstoneStream(QUARANTINE_STREAM);
    expect(await isLogAvailable(world.log)).to.equal(true);
    const { code, stderr } = await world.runCommand("quarantine", `${position}`, "--reason", "Import");
    expect(code, stderr).to.equal(3);
    expect((await world.runCommand("verify")).code).to.equal(0);
    expect((await world.rebuild()) === undefined).to.equal(false);
  });
});
