import { randomBytes, randomUUID } from "node:crypto";
import fs from "node:fs";
import { z } from "zod";
import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { InputError, RefusedError } from "../../../shared/command-line/failure.ts";
import { option } from "../../../shared/command-line/option.ts";
import { createStyle } from "../../../shared/command-line/style.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import { environment, uuid } from "../../../shared/domain/events/fields.ts";
import { createBackoff } from "../../../shared/runtime/backoff.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { ServerUnavailableError } from "../../../shared/runtime/run-service.ts";
import {
  createCommonHeaders,
  createSignatureHeaders,
  toDeliveryTimestamp,
} from "../../../shared/webhooks/delivery-headers.ts";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";

const WAIT_S = 25;
/** Time limit for a request to the partner API. The API waits up to `WAIT_S` seconds for an event. */
const REQUEST_TIMEOUT_MS = (WAIT_S + 30) * 1_000;
const DELIVERY_TIMEOUT_MS = 10_000;
const RENEWAL_MS = 60_000;
const RETRY_DELAYS_MS = { firstMs: 1_000, maxMs: 30_000 };

/** Cursor that skips all earlier events. */
const LATEST = "latest";

/** Partner API of the local stack. */
const LOCAL_API = "http://127.0.0.1:8080";

const MAX_ANSWER_CHARACTERS = 200;

const httpUrl = z.url({ protocol: /^https?$/, error: "must be an http or https URL" });
const tokenBody = z.object({ access_token: z.string(), expires_in: z.number() });
const installationsBody = z.object({
  installations: z.array(z.object({ clinicId: z.string(), clinicName: z.string() })),
});
const event = z.object({ id: z.guid(), type: z.string() });
type Event = z.infer<typeof event>;

/**
 * Response with events. `z.custom` keeps the order of members, so that forwarded bodies equal the bodies of webhooks.
 */
const eventsBody = z.object({
  events: z.array(z.custom<Event>((value) => event.safeParse(value).success)),
  cursor: z.string().nullable(),
});

type Headers = Record<string, string>;
type ReadApi = (path: string, headers?: Headers) => Promise<unknown>;
type Deliver = (event: Event) => Promise<void>;

/** Error response of the partner API that a retry cannot resolve. */
class ApiRefusal extends RefusedError {}

export const listenCommand = defineCommand({
  name: "partner listen",
  summary:
    "Receives the events of a partner's application, and prints them or forwards them to a server on this machine, signed like webhooks. Needs no public address and no webhook endpoint.",
  options: {
    clientId: option.id("client id of the application"),
    secretFile: option.text(z.string(), "file with the client secret, or /dev/stdin", "file"),
    forward: option.text(
      httpUrl.optional(),
      "URL to which each event is posted; default: the events are printed",
      "url",
    ),
    environment: option.text(environment.default("sandbox"), "sandbox or production; default: sandbox"),
    api: option.text(
      httpUrl.optional(),
      `address of the partner API; default: the setting TOKEN_ISSUER, or ${LOCAL_API}`,
      "url",
    ),
    clinicId: option.text(uuid.optional(), "only events of this clinic; default: of all clinics", "uuid"),
  },
  example:
    "--client-id 4f6d0a9e-8c2b-47d1-b3e5-6a7c8d9e0009 --secret-file client-secret --forward http://localhost:3000/hook",
  details: `With --forward, prints the signing secret first, which is new for each run and not the one of an endpoint. Posts each
event once, and prints the answer. Without --clinic-id, it also receives the events about the application's access. Earlier
events are not received. Press Ctrl-C to stop.`,
  async run({ secretFile, clinicId, forward, ...application }, terminal) {
    const { HEADER_BRAND: brand } = readConfig(["HEADER_BRAND"], terminal.env);
    const signingSecret = `whsec_${randomBytes(32).toString("base64")}`;
    const signal = terminal.catchInterruption();
    const api = application.api ?? terminal.env.TOKEN_ISSUER ?? LOCAL_API;
    const readApi = createApiReader({ ...application, api, clientSecret: readSecret(secretFile) }, signal);
    const { installations } = installationsBody.parse(await readApi("/installations"));
    const clinics = installations.filter((clinic) => clinicId === undefined || clinic.clinicId === clinicId);
    if (clinics.length === 0) throw new RefusedError("no clinic has approved the application, or not this clinic");
    const headers: Headers = clinicId === undefined ? {} : { [`X-${brand}-Clinic-ID`]: clinicId };
    const readEvents = async (after: string | null) => {
      const query = new URLSearchParams({ wait: String(WAIT_S), ...(after !== null && { after }) });
      const path = clinicId === undefined ? "/application/events" : "/events";
      return eventsBody.parse(await readApi(`${path}?${query}`, headers));
    };
    let { cursor: after } = await readEvents(LATEST);
    const names = clinics.map(({ clinicName }) => clinicName).join(", ");
    await terminal.writeOutput(
      forward === undefined
        ? `partner listen: printing events of ${names}; --forward <url> also posts them to your server`
        : `partner listen: forwarding events of ${names} to ${forward}\nsigning secret: ${signingSecret}`,
    );
    const deliver: Deliver =
      forward === undefined
        ? (received) => terminal.writeOutput(`${received.type} ${received.id}\n${JSON.stringify(received, null, 2)}`)
        : createDeliverer({ forward, signingSecret, brand }, terminal, signal);
    const backoff = createBackoff(RETRY_DELAYS_MS);
    while (!signal.aborted) {
      try {
        const { events, cursor } = await readEvents(after);
        for (const received of events) await deliver(received);
        after = cursor;
        backoff.reset();
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ApiRefusal && error.message.endsWith(" unknown_cursor")) after = LATEST;
        else if (!(error instanceof ServerUnavailableError)) throw error;
        await terminal.writeError(`partner listen: ${error.message}; trying again`);
        await backoff.pause(signal);
      }
    }
  },
});

function readSecret(file: string): string {
  try {
    return fs.readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new InputError(`--secret-file cannot be read: ${(error as Error).message}`);
  }
}

/**
 * Creates a function that reads from the partner API with a current token. Throws {@link ServerUnavailableError} if a
 * retry can succeed; otherwise {@link ApiRefusal}.
 */
function createApiReader(
  application: { api: string; environment: string; clientId: string; clientSecret: string },
  signal: AbortSignal,
): ReadApi {
  const { api, environment: environmentName, clientId, clientSecret } = application;
  const base = `${api.replace(/\/$/, "")}/${environmentName}/v1`;
  const send = async (path: string, options: RequestInit): Promise<unknown> => {
    const limits = AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
    const fail = (error: unknown): never => {
      throw new ServerUnavailableError(`the partner API at ${base} does not answer: ${describe(error)}; check --api`);
    };
    const response = await fetch(base + path, { ...options, redirect: "manual", signal: limits }).catch(fail);
    if (response.ok) return response.json().catch(fail);
    const body: unknown = await response.json().catch(() => ({}));
    const message = `the partner API returned ${response.status} ${(body as { error?: string }).error ?? ""}`;
    const isTemporary = response.status === 429 || response.status >= 500;
    throw isTemporary ? new ServerUnavailableError(message) : new ApiRefusal(message);
  };
  const exchange = async () => {
    const credentials = { client_id: clientId, client_secret: clientSecret, environment: environmentName };
    const body = JSON.stringify({ ...credentials, grant_type: "client_credentials" });
    const token = await send("/oauth/token", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const { access_token: value, expires_in: seconds } = tokenBody.parse(token);
    return { value, renewsAt: Date.now() + seconds * 1_000 - RENEWAL_MS };
  };
  let token: Awaited<ReturnType<typeof exchange>> | undefined;
  return async (path, headers = {}) => {
    if (!token || token.renewsAt < Date.now()) token = await exchange();
    return send(path, { headers: { ...headers, Authorization: `Bearer ${token.value}` } });
  };
}

/** Creates a function that posts an event to the `forward` URL, and prints the response. */
function createDeliverer(
  { forward, signingSecret, brand }: { forward: string; signingSecret: string; brand: string },
  terminal: Terminal,
  signal: AbortSignal,
): Deliver {
  const { green, red } = createStyle(terminal);
  const endpointId = randomUUID();
  return async (received) => {
    const body = JSON.stringify(received);
    const startedAt = Date.now();
    const deliveryId = deriveWebhookDeliveryId(received.id, endpointId);
    const content = { deliveryId, timestamp: toDeliveryTimestamp(startedAt), body };
    const headers = {
      ...createCommonHeaders("application/json"),
      ...createSignatureHeaders(content, [signingSecret], brand),
    };
    const limits = AbortSignal.any([signal, AbortSignal.timeout(DELIVERY_TIMEOUT_MS)]);
    const options: RequestInit = { method: "POST", headers, body, redirect: "manual", signal: limits };
    const answer = await fetch(forward, options)
      .then(async (response) => {
        const text = (await response.text()).replaceAll(/\s+/g, " ").slice(0, MAX_ANSWER_CHARACTERS);
        return (response.ok ? green : red)(`${response.status} ${text}`.trim());
      })
      .catch((error) => red(`no answer: ${describe(error)}`));
    if (signal.aborted) return;
    const time = new Date(startedAt).toISOString().slice(11, 19);
    await terminal.writeOutput(`${time} ${received.type} ${received.id} → ${answer} in ${Date.now() - startedAt} ms`);
  };
}

/** Describes why a request failed. The cause says more than the message of an error from `fetch`. */
function describe(error: unknown): string {
  const { message, cause } = error as Error & { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? message;
}
