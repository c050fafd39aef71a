/**
 * Shows the main workflow against the running stack: a partner creates an appointment, the portal shows it, a signed
 * webhook reports it to the partner, and a failed delivery is replayed. Exits with 1 if a check fails.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import { createStyle, renderLine } from "../../../shared/command-line/style.ts";
import { getLocalPaths, getLocalRoot } from "../setup/project.ts";
import { readStackFile, type StackFile } from "../stack/stack-file.ts";
import {
  createNarrator,
  type DemoResponse,
  formatMilliseconds,
  type Narrator,
  type RequestOptions,
  StepFailedError,
} from "./narrator.ts";
import { type ReceivedWebhook, type Receiver, startReceiver } from "./receiver.ts";

type Application = StackFile["demo"]["applications"][number];

interface Journey {
  stack: StackFile;
  receiver: Receiver;
  narrator: Narrator;
  application: Application;
  headers: Record<string, string>;
}

const STEP_TIMEOUT_MS = 60_000;

const PORTAL_POLL_INTERVAL_MS = 25;

/** Longer than for the portal, because the partner API has a rate limit. */
const PARTNER_POLL_INTERVAL_MS = 500;

const isVerbose = process.argv.includes("--verbose");
const style = createStyle({ env: process.env, columns: process.stdout.isTTY ? process.stdout.columns : undefined });
const write = (line: string) => console.log(renderLine(line));
const narrator = createNarrator(write, style, isVerbose);
try {
  const file = getLocalPaths(getLocalRoot(process.env)).stack;
  const stack = readStackFile(file);
  if (!stack) throw new Error(`No stack is running (${file} is missing). Run npm start in another terminal first.`);
  const receiver = await startReceiver();
  try {
    const appointmentId = await runJourney(stack, receiver, narrator);
    write(`\n${style.green("All checks passed.")}${describeNextSteps(stack, appointmentId)}`);
  } finally {
    await receiver.close();
  }
} catch (error) {
  const reason = error instanceof StepFailedError ? `this check failed: ${error.message}` : (error as Error).message;
  console.error(`\nThe demo stopped: ${reason}`);
  process.exitCode = 1;
}

function describeNextSteps({ urls, apis, demo }: StackFile, appointmentId: string): string {
  const application = demo.applications.find(({ environment }) => environment === "sandbox");
  return `

Where to look next:
  npm run audit -- events --appointment ${appointmentId}
                      who did what to the appointment, and what followed from it
  ${urls.gateway}/audit
                      the same as a page; credential: ${demo.auditor.credential}
  ${urls.gateway}/partner
                      the partner's page; client id: ${application?.clientId}
                      client secret: ${application?.clientSecret}
  ${apis.reference}
                      the API reference, which sends requests to the sandbox${isVerbose ? "" : "\n  npm run demo -- --verbose\n                      shows all headers and bodies"}`;
}

/**
 * @returns id of the appointment
 * @throws {StepFailedError} if a check fails
 */
async function runJourney(stack: StackFile, receiver: Receiver, narrator: Narrator): Promise<string> {
  const application = stack.demo.applications.find(({ environment }) => environment === "sandbox");
  if (!application) throw new StepFailedError("the stack must have a sandbox application");
  const headers = await exchangeToken(stack, application, narrator);
  const journey = { stack, receiver, narrator, application, headers };
  const endpoint = await registerEndpoint(journey);
  const { id, createdAt } = await createAppointment(journey);
  await readInPortal(journey, id, createdAt);
  await receiveWebhook(journey, endpoint.secret, id, createdAt);
  await confirmAndMove(journey, id);
  const deliveryId = await failDelivery(journey, endpoint.id);
  await replayDelivery(journey, endpoint, deliveryId);
  await revokeEndpoint(journey, endpoint.id);
  return id;
}

async function exchangeToken(stack: StackFile, application: Application, narrator: Narrator) {
  narrator.startStep(
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
    "The response contains a Bearer token.",
    status === 200 && body.token_type === "Bearer" && body.expires_in === 900,
  );
  return { Authorization: `Bearer ${body.access_token}`, "X-SERVICE-Clinic-ID": application.clinicId };
}

function requestAsPartner(
  { stack, narrator, headers }: Journey,
  method: string,
  path: string,
  options: RequestOptions = {},
): Promise<DemoResponse> {
  return narrator.request(method, `${stack.apis.sandbox}${path}`, {
    ...options,
    headers: { ...headers, ...options.headers },
  });
}

async function registerEndpoint(journey: Journey): Promise<{ id: string; secret: string }> {
  const { receiver, narrator } = journey;
  narrator.startStep("The partner registers a webhook endpoint. The signing secret is shown only once.");
  const { status, body } = await requestAsPartner(journey, "POST", "/webhook-endpoints", {
    body: { url: receiver.url, events: ["appointment.created"] },
  });
  narrator.check("The endpoint is active.", status === 201 && body.endpoint.status === "active");
  return { id: body.endpoint.id, secret: body.secret };
}

async function createAppointment(journey: Journey): Promise<{ id: string; createdAt: number }> {
  const { narrator } = journey;
  narrator.startStep("The partner creates an appointment with an idempotency key.");
  const key = `demo-${randomUUID()}`;
  const appointment = buildAppointment(journey);
  const firstResponse = await postAppointment(journey, key, appointment);
  const createdAt = performance.now();
  narrator.check("The appointment is created and its event is in the log.", firstResponse.status === 201);

  narrator.startStep("The partner retries with the same key, as if the response had been lost.");
  const { status, body, headers } = await postAppointment(journey, key, appointment);
  const isSameBody = JSON.stringify(body) === JSON.stringify(firstResponse.body);
  narrator.check("The retry gets the same response and creates no second appointment.", status === 201 && isSameBody);
  narrator.check("The response is marked as a replay.", headers.get("idempotent-replayed") === "true");
  return { id: firstResponse.body.appointment.id, createdAt };
}

function buildAppointment({ application: { branchId, animalId } }: Journey): unknown {
  const scheduledAt = new Date(Date.now() + 24 * 3_600_000).toISOString();
  return { branchId, animalId, scheduledAt, notes: "Created by the demo" };
}

function postAppointment(journey: Journey, key: string, appointment: unknown): Promise<DemoResponse> {
  const options = { headers: { "Idempotency-Key": key }, body: appointment };
  return requestAsPartner(journey, "POST", "/appointments", options);
}

async function readInPortal({ stack, narrator, application }: Journey, id: string, createdAt: number): Promise<void> {
  const user = stack.demo.portalUsers.find(({ clinicId }) => clinicId === application.clinicId);
  if (!user) throw new StepFailedError("the stack must have a portal user of the application's clinic");
  narrator.startStep(`${user.name} (${user.role}) opens the clinic's appointments in the portal.`);
  const url = `${stack.apis.portal}/appointments?limit=250`;
  const headers = { Cookie: user.cookie };
  const hasAppointment = (body: { appointments?: { id: string }[] }) =>
    body.appointments?.some((appointment) => appointment.id === id) ?? false;
  const hasAppointmentAppeared = await waitUntil(PORTAL_POLL_INTERVAL_MS, async () => {
    const response = await fetch(url, { headers });
    return hasAppointment((await response.json()) as { appointments?: { id: string }[] });
  });
  narrator.check("The appointment appears in the read model.", hasAppointmentAppeared);
  narrator.say(
    `It appeared ${formatMilliseconds(performance.now() - createdAt)} after its creation. This time includes the retry above.`,
  );
  const { status, body } = await narrator.request("GET", url, { headers });
  narrator.check("The portal shows the appointment.", status === 200 && hasAppointment(body));
}

async function receiveWebhook(journey: Journey, secret: string, id: string, createdAt: number): Promise<void> {
  const { narrator, receiver } = journey;
  narrator.startStep("The partner's server receives a signed webhook.");
  const webhook = await receiver.waitForWebhook(STEP_TIMEOUT_MS);
  printWebhook(narrator, webhook);
  narrator.say(
    `It arrived ${formatMilliseconds(Math.abs(webhook.receivedAt - createdAt))} ${webhook.receivedAt < createdAt ? "before" : "after"} the response to the create request.`,
  );
  const payload = verifySignature(secret, webhook) as { data: { appointment: { id: string } } };
  narrator.check("The public standardwebhooks library accepts the signature.", true);
  narrator.check("The webhook is about this appointment.", payload.data.appointment.id === id);
}

/** Confirms and moves the appointment with the operations API, as the clinic's own system would. */
async function confirmAndMove({ stack, narrator, application }: Journey, appointmentId: string): Promise<void> {
  const run = (command: string, fields: object = {}) =>
    narrator.request("POST", `${stack.apis.operations}/commands/${command}`, {
      headers: { Authorization: `Bearer ${stack.demo.operator.credential}`, "Idempotency-Key": `demo-${randomUUID()}` },
      body: { appointmentId, clinicId: application.clinicId, ...fields },
    });
  narrator.startStep("The clinic's own system confirms the appointment and moves it to another day.");
  const confirmation = await run("appointment-confirm");
  narrator.check("The appointment is confirmed.", confirmation.body.events?.[0] === "AppointmentConfirmed");
  const scheduledAt = new Date(Date.now() + 48 * 3_600_000).toISOString();
  const move = await run("appointment-reschedule", { scheduledAt });
  narrator.check("The appointment is moved.", move.status === 200 && move.body.events[0] === "AppointmentRescheduled");
}

async function failDelivery(journey: Journey, endpointId: string): Promise<string> {
  const { narrator, receiver } = journey;
  narrator.startStep("The partner's server responds with 500. The partner creates another appointment.");
  receiver.setResponseStatus(500);
  const { status } = await postAppointment(journey, `demo-${randomUUID()}`, buildAppointment(journey));
  narrator.check("The appointment is created although the webhook fails.", status === 201);
  const startedAt = performance.now();
  const id = getDeliveryId(await receiver.waitForWebhook(STEP_TIMEOUT_MS));
  narrator.check(
    "The delivery has failed after its last retry.",
    await waitForDelivery(journey, endpointId, id, "failed"),
  );
  narrator.say(
    `The retries took ${formatMilliseconds(performance.now() - startedAt)}. The local retry schedule is short; see WEBHOOK_RETRY_SCHEDULE.`,
  );
  const { body } = await requestAsPartner(journey, "GET", buildDeliveriesPath(endpointId));
  const delivery = body.deliveries.find((item: { id: string }) => item.id === id);
  narrator.check("Every attempt is recorded.", delivery.attempts.length > 1);
  // Discards the webhooks that the retries sent.
  for (let retry = 1; retry < delivery.attempts.length; retry += 1) await receiver.waitForWebhook(STEP_TIMEOUT_MS);
  return id;
}

async function replayDelivery(
  journey: Journey,
  endpoint: { id: string; secret: string },
  deliveryId: string,
): Promise<void> {
  const { narrator, receiver } = journey;
  narrator.startStep("The partner's server works again, and the partner requests a replay of the failed delivery.");
  receiver.setResponseStatus(204);
  const requestedAt = performance.now();
  const replayPath = `${buildDeliveriesPath(endpoint.id)}/${deliveryId}/replay`;
  const { status } = await requestAsPartner(journey, "POST", replayPath);
  narrator.check("The replay is queued.", status === 202);
  const webhook = await receiver.waitForWebhook(STEP_TIMEOUT_MS);
  printWebhook(narrator, webhook);
  narrator.say(`It arrived ${formatMilliseconds(webhook.receivedAt - requestedAt)} after the replay request.`);
  verifySignature(endpoint.secret, webhook);
  narrator.check("The signature is valid, and the delivery id is the same.", getDeliveryId(webhook) === deliveryId);
  narrator.check("The delivery has succeeded.", await waitForDelivery(journey, endpoint.id, deliveryId, "delivered"));
}

async function revokeEndpoint(journey: Journey, endpointId: string): Promise<void> {
  const { narrator } = journey;
  narrator.startStep("The demo is about to stop the partner's server, so the partner revokes the endpoint.");
  const { status, body } = await requestAsPartner(journey, "DELETE", `/webhook-endpoints/${endpointId}`);
  narrator.check("The endpoint is revoked.", status === 200 && body.endpoint.status === "revoked");
}

function buildDeliveriesPath(endpointId: string): string {
  return `/webhook-endpoints/${endpointId}/deliveries`;
}

/** Polls a delivery without printing the requests. Returns false if the delivery does not reach the status in time. */
function waitForDelivery(
  { stack, headers }: Journey,
  endpointId: string,
  id: string,
  status: string,
): Promise<boolean> {
  return waitUntil(PARTNER_POLL_INTERVAL_MS, async () => {
    const response = await fetch(`${stack.apis.sandbox}${buildDeliveriesPath(endpointId)}`, { headers });
    const { deliveries } = (await response.json()) as { deliveries?: { id: string; status: string }[] };
    return deliveries?.find((delivery) => delivery.id === id)?.status === status;
  });
}

function printWebhook(narrator: Narrator, { headers, body }: ReceivedWebhook): void {
  for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"])
    narrator.detail(`  ${name}: ${headers[name]}`);
  narrator.detail(`  ${body}`);
}

function verifySignature(secret: string, { body, headers }: ReceivedWebhook): unknown {
  try {
    return new Webhook(secret).verify(body, headers);
  } catch (error) {
    throw new StepFailedError(`the signature must be valid (${(error as Error).message})`);
  }
}

function getDeliveryId({ headers }: ReceivedWebhook): string {
  return headers["webhook-id"] ?? "";
}

/** Repeats a check until it succeeds. Returns false if it does not succeed within the time limit. */
async function waitUntil(intervalMs: number, check: () => Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + STEP_TIMEOUT_MS;
  while (performance.now() < deadline) {
    if (await check()) return true;
    await sleep(intervalMs);
  }
  return false;
}
