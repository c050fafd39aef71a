import { randomUUID } from "node:crypto";
import { jsonEvent } from "@eventstore/db-client";
import pg from "pg";
import { toMetadata } from "../../../command/handling/handle.ts";
import { agreeRateLimit } from "../../../command/operations/installation-operations.ts";
import { MAX_ENDPOINTS } from "../../../command/operations/webhook-endpoint-operations.ts";
import { startQueryApi } from "../../../query-api/start.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import { deriveInstallationId } from "../../../shared/domain/events/ids.ts";
import { partnerApplicationStreams, webhookEndpointPlacesStreams } from "../../../shared/domain/events/partner.ts";
import { sandboxStreams } from "../../../shared/domain/events/sandbox.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { LogProcess, makeTemporaryDir } from "../../deploy/eventstore/log-process.ts";
import { insertAttempts, insertDelivery } from "../../support/deliveries.ts";
import { eventually } from "../../support/eventually.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import {
  createTestOperatorContext,
  startTestCommandService,
  type TestCommand,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import { type Partner, type PartnerApi, startPartnerApi } from "../../support/partner-api.ts";
import { queryEnvironment } from "../../support/query-environment.ts";
import { getTestServers } from "../../support/stack.ts";

/** A partner, with the ids of the sandbox objects that requests need. */
export interface SandboxPartner extends Partner {
  clinicId: string;
  branchId: string;
  animalId: string;
}

/** Origins of the query service and the command service. */
export interface Origins {
  queryOrigin: string;
  commandOrigin: string;
}

export interface PartnerContractWorld {
  origins: Origins;
  /** Services without Postgres and event log. They accept the tokens of `origins`. */
  originsWithoutServers: Origins;
  unrestrictedPartner: SandboxPartner;
  /** Partner with a rate limit of one request per minute. */
  rateLimitedPartner: SandboxPartner;
  /** Partner with damaged data in the read models and in the log. */
  damagedPartner: SandboxPartner;
  /** Services with the data of `damagedPartner`. */
  damagedOrigins: Origins;
  /** Partner with a single scope, which does not permit sandbox operations. */
  clinicScopePartner: Partner;
  /** Creates a partner with a sandbox. */
  createPartner(): Promise<SandboxPartner>;
  /** Creates as many endpoints as are permitted, at the clinic and without a clinic. */
  useUpEndpointQuotas(partner: SandboxPartner): Promise<void>;
  /** Deletes the partner's sandbox permanently. */
  tombstoneSandbox(partner: SandboxPartner): Promise<void>;
  /** Creates a failed delivery and returns its id. */
  createFailedDelivery(
    owner: Omit<SandboxPartner, "clinicId"> & { clinicId: string | null },
    endpointId: string,
  ): Promise<string>;
  stop(): Promise<void>;
}

/** Starts the partner API three times: with working servers, with unavailable servers, and with damaged data. */
export async function startPartnerContractWorld(): Promise<PartnerContractWorld> {
  const api = await startPartnerApi();
  const servicesWithoutServers = await startWithoutServers(api.command);
  const [unrestrictedPartner, rateLimitedPartner] = await Promise.all([1, 2].map(() => createSandboxPartner(api)));
  if (!unrestrictedPartner || !rateLimitedPartner) throw new Error("There must be two partners.");
  const limits = [
    { ...rateLimitedPartner, rateLimitPerMinute: 1 },
    { ...unrestrictedPartner, rateLimitPerMinute: 10_000 },
  ];
  for (const limit of limits) await agreeRateLimit(api.command.log, limit, createTestOperatorContext());
  const admin = new pg.Pool({ connectionString: api.database.urls.projection, max: 1 });
  const damagedServices = await startWithDamagedData();
  const { log } = api.command;
  const record = async (stream: string, event: CatalogEvent, clinicId: string | null = null) => {
    const metadata = toMetadata({ ...createTestOperatorContext(), clinicId });
    await log.append(stream, -1n, [{ id: randomUUID(), event, metadata }]);
  };
  return {
    origins: { queryOrigin: api.queryUrl, commandOrigin: api.command.url },
    originsWithoutServers: servicesWithoutServers.origins,
    damagedPartner: damagedServices.partner,
    damagedOrigins: damagedServices.origins,
    unrestrictedPartner,
    rateLimitedPartner,
    createPartner: () => createSandboxPartner(api),
    clinicScopePartner: await api.createPartner("sandbox", ["clinic:read"]),
    async useUpEndpointQuotas({ applicationId, clinicId }) {
      const takenAt = new Date().toISOString();
      const quotaPlaces = Array.from({ length: MAX_ENDPOINTS }, () => ({ endpointId: randomUUID(), takenAt }));
      for (const ownerId of [deriveInstallationId(applicationId, clinicId), applicationId])
        await record(toStreamName(webhookEndpointPlacesStreams, ownerId), {
          type: "WebhookEndpointPlaceTaken",
          data: { ownerId, places: quotaPlaces },
        });
    },
    async tombstoneSandbox({ applicationId }) {
      const client = connectEventStore(api.eventstoreUrl, "test");
      await client.tombstoneStream(toStreamName(sandboxStreams, applicationId));
      await client.dispose();
    },
    createFailedDelivery: createDeliveryFactory(admin),
    async stop() {
      await admin.end();
      await servicesWithoutServers.stop();
      await damagedServices.stop();
      await api.stop();
    },
  };
}

export async function createSandboxPartner(api: PartnerApi): Promise<SandboxPartner> {
  const partner = await api.createPartner();
  const { body } = await partner.request("GET", "/sandbox");
  const { clinicId, branches, animals } = body.sandbox;
  return { ...partner, clinicId, branchId: branches[0].id, animalId: animals[0].id };
}

export const createDeliveryFactory =
  (admin: pg.Pool): PartnerContractWorld["createFailedDelivery"] =>
  async (partner, endpointId) => {
    const { clinicId, applicationId, environment } = partner;
    const kind = clinicId === null ? { branchId: null, type: "installation.approved" } : { branchId: partner.branchId };
    const deliveryId = await insertDelivery(admin, { endpointId, clinicId, applicationId, environment, ...kind });
    await insertAttempts(admin, deliveryId, 1);
    return deliveryId;
  };

/** Starts services that can verify tokens, but have neither Postgres nor an event log. */
async function startWithoutServers({ signingKey, url }: TestCommand) {
  const proxy = await startFaultProxy((await getTestServers()).eventstoreUrl);
  const command = await startTestCommandService({
    EVENTSTORE_URL: proxy.url,
    DATABASE_URL: queryEnvironment.DATABASE_URL,
    TOKEN_SIGNING_KEYS: JSON.stringify({ keys: [signingKey] }),
  });
  const queryService = await startQueryApi({
    ...queryEnvironment,
    TOKEN_ISSUER,
    TOKEN_JWKS_URL: `${url}/.well-known/jwks.json`,
  });
  proxy.disconnect();
  return {
    origins: { queryOrigin: queryService.url, commandOrigin: command.url },
    async stop() {
      await queryService.stop();
      await command.stop();
      await proxy.close();
    },
  };
}

/** Starts the partner API with its own log and a partner whose data is damaged. */
async function startWithDamagedData() {
  const log = await LogProcess.start(makeTemporaryDir());
  const api = await startPartnerApi({ logUrl: `esdb://127.0.0.1:${log.port}?tls=false` });
  const partner = await createSandboxPartner(api);
  await damageData(partner, api, log);
  return {
    partner,
    origins: { queryOrigin: api.queryUrl, commandOrigin: api.command.url },
    async stop() {
      await api.stop();
      await log.kill();
    },
  };
}

/** Damages a partner's data: adds an unknown event to the log and an unknown scope to the read models. */
async function damageData(
  { applicationId, clinicId }: SandboxPartner,
  { database }: PartnerApi,
  log: LogProcess,
): Promise<void> {
  const admin = new pg.Client({ connectionString: database.urls.projection });
  await admin.connect();
  const table = `${READ_MODEL_SCHEMA}.partner_application`;
  await admin.query(`CREATE TEMP TABLE saved AS SELECT * FROM ${table} WHERE application_id = $1`, [applicationId]);
  const client = log.createClient();
  const stream = toStreamName(partnerApplicationStreams, applicationId);
  await client.appendToStream(stream, jsonEvent({ type: "Scribble", data: {} }));
  await client.dispose();
  // The projectors quarantine the application. With its row, query-api continues to the damaged scope.
  const readSql = `SELECT FROM ${table} WHERE application_id = $1`;
  await eventually("the quarantine", async () => (await admin.query(readSql, [applicationId])).rowCount === 0);
  await admin.query(`INSERT INTO ${table} SELECT * FROM saved`);
  const { rowCount } = await admin.query(
    `UPDATE ${READ_MODEL_SCHEMA}.installation SET scopes = '["everything"]' WHERE installation_id = $1`,
    [deriveInstallationId(applicationId, clinicId)],
  );
  await admin.end();
  if (rowCount !== 1) throw new Error("The partner has no installation in the read models.");
}
