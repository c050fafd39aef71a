/** Starts a command service and creates a partner with an approved webhook origin. */
import { approveWebhookOrigin } from "../../../command/operations/application-operations.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import type { WebhookEndpointEvent } from "../../../shared/domain/events/partner.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
} from "../../support/partner.ts";

export const ORIGIN = "http://127.0.0.1:9";
export const SECRET_KEYS = { current: "k1", keys: { k1: Buffer.alloc(32, 7).toString("base64") } };
export const secretBox = createSecretBox(SECRET_KEYS);
export const validEndpoint = { url: `${ORIGIN}/hooks`, events: ["appointment.created"] };

export type EndpointWorld = Awaited<ReturnType<typeof startEndpointWorld>>;

export async function startEndpointWorld(env: Record<string, string> = {}) {
  const command = await startTestCommandService({ WEBHOOK_SECRET_KEYS: JSON.stringify(SECRET_KEYS), ...env });
  const world = await createPartnerWorld(command);
  await approveWebhookOrigin(command.log, { ...world, origin: `${ORIGIN}/any/path` }, createTestOperatorContext());
  /** Sends a request to `/webhook-endpoints`. @param path suffix of this path */
  const call = (method: "POST" | "PATCH" | "DELETE", path = "", body?: unknown, caller: PartnerWorld = world) =>
    sendRequest(method, `${command.url}/${caller.environment}/v1/webhook-endpoints${path}`, caller.headers, body);
  const { applicationId, clinicId, environment } = world;
  return {
    command,
    world,
    call,
    createEndpoint: async (caller = world): Promise<string> =>
      (await call("POST", "", validEndpoint, caller)).body.endpoint.id,
    getReference: (endpointId: string) => ({ endpointId, owner: { applicationId, clinicId, environment } }),
    readEvents: (id: string) => command.log.read<WebhookEndpointEvent>(`webhookEndpoint-${id}`),
  };
}

/** Serializes stored events. JSON.stringify cannot serialize their bigint values. */
export const toText = (events: unknown) =>
  JSON.stringify(events, (_, value) => (typeof value === "bigint" ? String(value) : value));
