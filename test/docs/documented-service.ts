import { startGateway } from "../../deploy/local/gateway/gateway-server.ts";
import { type Partner, type PartnerApi, startPartnerApi } from "../support/partner-api.ts";
import { UNREACHABLE_URL } from "../support/query-environment.ts";
import { autoStop } from "../support/resources.ts";

/** The partner API at one origin. Delivers webhooks to loopback addresses, too. */
export interface DocumentedService {
  api: PartnerApi;
  origin: string;
  /** Base URL of the sandbox environment. */
  sandboxUrl: string;
  /** Creates a sandbox application. `env` contains the environment variables that the examples read. */
  createSandboxPartner(): Promise<{ partner: Partner; env: Record<string, string> }>;
  stop(): Promise<void>;
}

/** @param projectionEnv settings of the projection service that override the defaults */
export async function startDocumentedService(projectionEnv: Record<string, string> = {}): Promise<DocumentedService> {
  const defaults = { ROLES: "projectors,relay,webhooks", WEBHOOK_ALLOW_LOOPBACK: "true", WEBHOOK_RETRY_SCHEDULE: "1" };
  const api = await startPartnerApi({ projectionEnv: { ...defaults, ...projectionEnv } });
  const gateway = await autoStop(
    startGateway({
      ...{ host: "127.0.0.1", port: 0, drainTimeoutMs: 0, log: () => undefined },
      upstreamUrls: { command: api.command.url, queryApi: api.queryUrl, audit: UNREACHABLE_URL },
    }),
  );
  const sandboxUrl = `${gateway.url}/sandbox/v1`;
  return {
    api,
    origin: gateway.url,
    sandboxUrl,
    async createSandboxPartner() {
      const partner = await api.createPartner();
      await partner.request("GET", "/sandbox"); // waits until the read models contain the sandbox
      const { applicationId, clientSecret } = partner;
      return { partner, env: { API: sandboxUrl, CLIENT_ID: applicationId, CLIENT_SECRET: clientSecret } };
    },
    async stop() {
      await gateway.close();
      await api.stop();
    },
  };
}
