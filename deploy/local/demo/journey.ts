import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import type { StackFile } from "../stack/stack-file.ts";
import { type DemoResponse, formatMilliseconds, type Narrator, StepFailedError } from "./narrator.ts";
import type { ReceivedWebhook, Receiver } from "./receiver.ts";

type Application = StackFile["demo"]["applications"][number];

/** Values that all steps share. */
interface Journey {
  stack: StackFile;
  receiver: Receiver;
  narrator: Narrator;
  application: Application;
  /** Headers of the partner's requests: token and clinic. */
  headers: Record<string, string>;
}

/** Time limit for an expected result. Milliseconds. */
const STEP_TIMEOUT_MS = 60_000;

/** Interval between requests to the partner API while waiting, below its rate limit. Milliseconds. */
const API_POLL_INTERVAL_MS = 500;

/** Runs all steps. @throws {StepFailedError} if a check fails */
export async function runJourney(stack: StackFile, receiver: Receiver, narrator: Narrator): Promise<void> {
  const application = stack.demo.applications.find(({ environment }) => environment === "sandbox");
  if (!application) throw new StepFailedError("the stack must have a sandbox application");
  const headers = await exchangeToken(stack, application, narrator);
  const journey = { stack, receiver, narrator, application, headers };
  const endpoint = await registerEndpoint(journey);
  const { id, created } = await createAppointment(journey);
  await readInPortal(journey, id, created);
  await receiveWebhook(journey, endpoint.secret, id, created);
  const failed = await failDelivery(journey, endpoint.id);
  await replayDelivery(journey, endpoint, failed);
  await revokeEndpoint(journey, endpoint.id);
}

async function exchangeToken(stack: StackFile, application: Application, narrator: Narrator) {
  narrator.step(
    `The partner application "${application.name}" exchanges its credentials for a token that is valid for 900 seconds.`,
  );
  const { status, body } = await narrator.request("POST", `${stack.apis.sandbox}/oauth/token`, {
    body: {
      client_id: application.clientId,
      client_secret: application.clientSecret,
      grant_type: "client_credentials",
      environment: "sandbox",
    },
  });
  narrator.check(
    "The answer holds a Bearer token.",
    status === 200 && body.token_type === "Bearer" && body.expires_in === 900,
  );
  return { Authorization: `Bearer ${body.access_token}`, "X-SERVICE-Clinic-ID": application.clinicId };
}

async function registerEndpoint({
  stack,
  receiver,
  narrator,
  headers,
}: Journey): Promise<{ id: string; secret: string }> {
  narrator.step("The partner registers a webhook endpoint. The signing secret is shown only once.");
  const { status, body } = await narrator.request("POST", `${stack.apis.sandbox}/webhook-endpoints`, {
    headers,
    body: { url: receiver.url, events: ["appointment.created"] },
  });
  narrator.check("The endpoint is active.", status === 201 && body.endpoint.status === "active");
  return { id: body.endpoint.id, secret: body.secret };
}

async function createAppointment(journey: Journey): Promise<{ id: string; created: number }> {
  const { narrator } = journey;
  narrator.step("The partner creates an appointment with an idempotency key.");
  const key = `demo-${randomUUID()}`;
  const request = buildAppointment(journey);
  const first = await postAppointment(journey, key, request);
  const created = performance.now();
  narrator.check("The appointment is created and its event is in the log.", first.status === 201);

  narrator.step("The partner lost the answer and retries with the same key.");
  const retry = await postAppointment(journey, key, request);
  const same = JSON.stringify(retry.body) === JSON.stringify(first.body);
  narrator.check(
    "The retry gets the same answer and creates no second appointment.",
    retry.status === 201 && same,
  );
  narrator.check("The answer is marked as a replay.", retry.headers.get("idempotent-replayed") === "true");
  return { id: first.body.appointment.id, created };
}

function buildAppointment({ application }: Journey): unknown {
  const scheduledAt = new Date(Date.now() + 24 * 3_600_000).toISOString();
  return {
    branchId: application.branchId,
    animalId: application.animalId,
    scheduledAt,
    notes: "Created by the demo",
  };
}

function postAppointment(
  { stack, narrator, headers }: Journey,
  key: string,
  body: unknown,
): Promise<DemoResponse> {
  return narrator.request("POST", `${stack.apis.sandbox}/appointments`, {
    headers: { ...headers, "Idempotency-Key": key },
    body,
  });
}

async function readInPortal(
  { stack, narrator, application }: Journey,
  id: string,
  created: number,
): Promise<void> {
  const user = stack.demo.portalUsers.find(({ clinicId }) => clinicId === application.clinicId);
  if (!user) throw new StepFailedError("the stack must have a portal user of the application's clinic");
  narrator.step(`${user.name} (${user.role}) opens the clinic's appointments in the portal.`);
  const url = `${stack.apis.portal}/appointments?limit=250`;
  const has = (body: { appointments?: { id: string }[] }) =>
    body.appointments?.some((item) => item.id === id);
  const seen = await waitUntil(async () => {
    const response = await fetch(url, { headers: { Cookie: user.cookie } });
    return has((await response.json()) as { appointments?: { id: string }[] });
  });
  narrator.check("The appointment appears in the read model.", seen);
  narrator.say(
    `It appeared ${formatMilliseconds(performance.now() - created)} after its creation, including the retry above.`,
  );
  const { status, body } = await narrator.request("GET", url, { headers: { Cookie: user.cookie } });
  narrator.check("The portal shows the appointment.", status === 200 && has(body) === true);
}

async function receiveWebhook(journey: Journey, secret: string, id: string, created: number): Promise<void> {
  const { narrator, receiver } = journey;
  narrator.step("The partner's server receives a signed webhook.");
  const webhook = await receiver.next(STEP_TIMEOUT_MS);
  printWebhook(narrator, webhook);
  narrator.say(
    `It arrived ${formatMilliseconds(Math.abs(webhook.at - created))} ${webhook.at < created ? "before" : "after"} the answer to the create request.`,
  );
  const payload = verifySignature(secret, webhook) as { data: { appointment: { id: string } } };
  narrator.check("The public standardwebhooks library accepts the signature.", true);
  narrator.check("The webhook is about this appointment.", payload.data.appointment.id === id);
}

async function failDelivery(journey: Journey, endpointId: string): Promise<{ id: string }> {
  const { narrator, receiver } = journey;
  narrator.step("The partner's server fails with 500 while another appointment is created.");
  receiver.respondWith(500);
  const { status } = await postAppointment(journey, `demo-${randomUUID()}`, buildAppointment(journey));
  narrator.check("The appointment is created nevertheless.", status === 201);
  const started = performance.now();
  const first = await receiver.next(STEP_TIMEOUT_MS);
  const id = getHeader(first, "webhook-id");
  const failed = await waitUntil(
    async () => (await findDelivery(journey, endpointId, id))?.status === "failed",
    API_POLL_INTERVAL_MS,
  );
  narrator.check("After the last retry, the delivery has failed.", failed);
  narrator.say(
    `The retries took ${formatMilliseconds(performance.now() - started)}. The local schedule is short; see WEBHOOK_RETRY_SCHEDULE.`,
  );
  const { body } = await narrator.request("GET", deliveriesUrl(journey, endpointId), {
    headers: journey.headers,
  });
  const delivery = body.deliveries.find((item: { id: string }) => item.id === id);
  narrator.check("Every attempt is recorded.", delivery.attempts.length > 1);
  for (let drained = 1; drained < delivery.attempts.length; drained += 1)
    await receiver.next(STEP_TIMEOUT_MS);
  return { id };
}

async function replayDelivery(
  journey: Journey,
  endpoint: { id: string; secret: string },
  failed: { id: string },
): Promise<void> {
  const { narrator, receiver } = journey;
  narrator.step("The server works again, and the partner requests a replay from the stored event.");
  receiver.respondWith(204);
  const url = `${deliveriesUrl(journey, endpoint.id)}/${failed.id}/replay`;
  const asked = performance.now();
  const { status } = await narrator.request("POST", url, { headers: journey.headers });
  narrator.check("The replay is queued.", status === 202);
  const webhook = await receiver.next(STEP_TIMEOUT_MS);
  printWebhook(narrator, webhook);
  narrator.say(`It arrived ${formatMilliseconds(webhook.at - asked)} after the replay request.`);
  verifySignature(endpoint.secret, webhook);
  narrator.check(
    "It has a new signature and the same delivery id.",
    getHeader(webhook, "webhook-id") === failed.id,
  );
  const delivered = await waitUntil(
    async () => (await findDelivery(journey, endpoint.id, failed.id))?.status === "delivered",
    API_POLL_INTERVAL_MS,
  );
  narrator.check("The delivery has succeeded.", delivered);
}

async function revokeEndpoint({ stack, narrator, headers }: Journey, endpointId: string): Promise<void> {
  narrator.step("The partner revokes the endpoint, because this demo stops its server.");
  const { status, body } = await narrator.request(
    "DELETE",
    `${stack.apis.sandbox}/webhook-endpoints/${endpointId}`,
    {
      headers,
    },
  );
  narrator.check("The endpoint is revoked.", status === 200 && body.endpoint.status === "revoked");
}

function deliveriesUrl({ stack }: Journey, endpointId: string): string {
  return `${stack.apis.sandbox}/webhook-endpoints/${endpointId}/deliveries`;
}

async function findDelivery(journey: Journey, endpointId: string, id: string) {
  const response = await fetch(deliveriesUrl(journey, endpointId), { headers: journey.headers });
  const { deliveries } = (await response.json()) as { deliveries?: { id: string; status: string }[] };
  return deliveries?.find((delivery) => delivery.id === id);
}

function printWebhook(narrator: Narrator, { headers, body }: ReceivedWebhook): void {
  for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"])
    narrator.say(`  ${name}: ${headers[name]}`);
  narrator.say(`  ${body}`);
}

function verifySignature(secret: string, { body, headers }: ReceivedWebhook): unknown {
  try {
    return new Webhook(secret).verify(body, headers);
  } catch (error) {
    throw new StepFailedError(`the signature must be valid (${(error as Error).message})`);
  }
}

function getHeader({ headers }: ReceivedWebhook, name: string): string {
  return headers[name] ?? "";
}

/** Repeats a check every `every` milliseconds. Returns whether it succeeded within the time limit. */
async function waitUntil(ask: () => Promise<boolean | undefined>, every = 25): Promise<boolean> {
  const deadline = performance.now() + STEP_TIMEOUT_MS;
  while (performance.now() < deadline) {
    if (await ask()) return true;
    await delay(every);
  }
  return false;
}
