/**
 * Runs the complete partner API in this process, with its own database: command service, query API and projection. Like
 * the gateway, `request` sends GET requests to the query API and all others to the command service.
 */
import { randomUUID } from "node:crypto";
import { startProjection } from "../../projection/start.ts";
import { startQueryApi } from "../../query-api/start.ts";
import type { Environment } from "../../shared/domain/events/fields.ts";
import { type Scope, scopes } from "../../shared/domain/events/partner.ts";
import { PERSONAL_DATA_KEYS } from "./data-keys.ts";
import { eventually } from "./eventually.ts";
import { createDatabaseWithReadModels } from "./migrated-database.ts";
import { startOwnLog } from "./own-log.ts";
import {
  createApplication,
  type PartnerResponse,
  sendRequest,
  sendTokenRequest,
  startTestCommandService,
  type TestApplication,
  type TestCommand,
  TOKEN_ISSUER,
} from "./partner.ts";
import { queryEnvironment } from "./query-environment.ts";
import { autoStop, releaseLater } from "./resources.ts";
import { getTestServers, type TestDatabase } from "./stack.ts";

export interface PartnerApi {
  eventstoreUrl: string;
  command: TestCommand;
  /** Origin of the query API. */
  queryUrl: string;
  /** Origin of the projection service. */
  projectionUrl: string;
  database: Pick<TestDatabase, "urls" | "drop">;
  /** Creates an application and exchanges its credentials for a token. */
  createPartner(environment?: Environment, grantedScopes?: readonly Scope[]): Promise<Partner>;
  stop(): Promise<void>;
}

export interface Partner extends TestApplication {
  /** Authorization header. Tests add the header that selects a clinic. */
  headers: Record<string, string>;
  /**
   * Sends a request in the application's environment. A read reflects all earlier writes of this partner, because it is
   * repeated while the read models are behind. If the caller sets a log position, the read is not repeated.
   */
  request(
    method: Method,
    path: string,
    options?: { headers?: Record<string, string>; body?: unknown },
  ): Promise<PartnerResponse>;
}

type Method = Parameters<typeof sendRequest>[0];

/** Parts of a sandbox's state. */
interface Sandbox {
  clinicId: string;
  branches: { id: string }[];
  animals: { id: string }[];
}

const APPOINTMENT_TIME = new Date(Date.now() + 3 * 86_400_000).toISOString();

/**
 * Requests an appointment in three days for the sandbox's first animal at the first branch.
 *
 * @param fields replace fields of the request body
 */
export function createSandboxAppointment(
  partner: Partner,
  { clinicId, branches, animals }: Sandbox,
  fields: object = {},
  key: string = randomUUID(),
): Promise<PartnerResponse> {
  const body = { branchId: branches[0]?.id, animalId: animals[0]?.id, scheduledAt: APPOINTMENT_TIME, ...fields };
  const headers = { "X-SERVICE-Clinic-ID": clinicId, "Idempotency-Key": key };
  return partner.request("POST", "/appointments", { headers, body });
}

export interface PartnerApiOptions {
  /** URL of an event log; by default, a new log. */
  logUrl?: string;
  /** Database with read models; default: a new database on the shared Postgres. */
  database?: Pick<TestDatabase, "urls" | "drop">;
  /** Settings of the projection service. They override the defaults. */
  projectionEnv?: Record<string, string>;
}

export async function startPartnerApi(options: PartnerApiOptions = {}): Promise<PartnerApi> {
  const { natsUrl } = await getTestServers();
  const ownLog = options.logUrl === undefined ? await startOwnLog() : undefined;
  const eventstoreUrl = options.logUrl ?? ownLog!.eventstoreUrl;
  const database = options.database ?? (await createDatabaseWithReadModels());
  const secretKeysJson = JSON.stringify({ current: "k1", keys: { k1: Buffer.alloc(32).toString("base64") } });
  const projectionService = await autoStop(
    startProjection({
      ...{ PORT: "0", LOG_LEVEL: "fatal", EVENTSTORE_URL: eventstoreUrl, NATS_URL: natsUrl },
      DATABASE_URL: database.urls.projection,
      ROLES: "projectors",
      PERSONAL_DATA_KEYS,
      WEBHOOK_SECRET_KEYS: secretKeysJson,
      ...options.projectionEnv,
    }),
  );
  const command = await startTestCommandService({
    EVENTSTORE_URL: eventstoreUrl,
    DATABASE_URL: database.urls.command,
    WEBHOOK_SECRET_KEYS: secretKeysJson,
  });
  const queryService = await autoStop(
    startQueryApi({
      ...queryEnvironment,
      DATABASE_URL: database.urls.query,
      TOKEN_ISSUER,
      TOKEN_JWKS_URL: `${command.url}/.well-known/jwks.json`,
    }),
  );
  return {
    eventstoreUrl,
    command,
    queryUrl: queryService.url,
    projectionUrl: projectionService.url,
    database,
    async createPartner(environment = "sandbox", grantedScopes = scopes) {
      const application = await createApplication(command.log, environment, grantedScopes);
      // On a busy machine, the first request may not be counted in time.
      const { status, body, headers } = await eventually("a token response", async () => {
        const response = await sendTokenRequest(command.url, application);
        return response.status !== 503 && response;
      });
      if (status !== 200) throw new Error(`no token: ${status} ${body.error}`);
      return toPartner(application, body.access_token, headers);
    },
    stop: releaseLater(async () => {
      await Promise.all([command.stop(), queryService.stop()]);
      await projectionService.stop();
      await ownLog?.stop();
      await database.drop();
    }),
  };

  function toPartner(application: TestApplication, token: string, tokenHeaders: Headers): Partner {
    const authorizationHeaders = { Authorization: `Bearer ${token}` };
    let position = tokenHeaders.get("X-SERVICE-Log-Position") ?? "0";
    return {
      ...application,
      headers: authorizationHeaders,
      async request(method, path, { headers = {}, body } = {}) {
        const url = `${method === "GET" ? queryService.url : command.url}/${application.environment}/v1${path}`;
        const positionHeader = method === "GET" ? { "X-SERVICE-Log-Position": position } : {};
        const send = () => sendRequest(method, url, { ...authorizationHeaders, ...positionHeader, ...headers }, body);
        // On a busy machine, the read models can lag for longer than a request waits. In that case, partners retry.
        const finalResponse =
          "X-SERVICE-Log-Position" in headers
            ? await send()
            : await eventually("the read models catch up", async () => {
                const response = await send();
                return response.body?.error !== "read_model_behind" && response;
              });
        const reachedPosition = finalResponse.headers.get("X-SERVICE-Log-Position");
        if (reachedPosition !== null && BigInt(reachedPosition) > BigInt(position)) position = reachedPosition;
        return finalResponse;
      },
    };
  }
}
