import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { handle } from "../../command/handling/handle.ts";
import { narrowInstallation, revokeInstallation } from "../../command/operations/installation-operations.ts";
import type { Recording } from "../../query-api/docs/openapi.ts";
import type { WebhookEndpointEvent } from "../../shared/domain/events/partner.ts";
import { SANDBOX_LINK_CODES } from "../../shared/domain/partner/sandbox-link-code.ts";
import { endpointAggregate } from "../../shared/domain/partner/webhook-endpoint.ts";
import type { PartnerOperationId } from "../../shared/partner-api/operations.ts";
import { eventually } from "../support/eventually.ts";
import {
  createClinic,
  createTestOperatorContext,
  installApplication,
  type PartnerResponse,
  type TestClinic,
} from "../support/partner.ts";
import type { Partner } from "../support/partner-api.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import type { DocumentedService } from "./documented-service.ts";
import { createNormalizer } from "./normalize.ts";

type Method = Parameters<Partner["request"]>[0];

/** Records every operation and every event of the partner API. Ids, times and secrets are normalized. */
export async function recordPartnerApi(service: DocumentedService): Promise<Recording> {
  const receiver = await startReceiver();
  const recorder = await PartnerRecorder.create(service, receiver);
  await recordSandbox(recorder);
  const clinicOwner = createClinicOwner(recorder);
  const endpointPath = await recordEndpoint(recorder, clinicOwner);
  await recordAppointment(recorder, endpointPath);
  await recordDeliveries(recorder, endpointPath);
  await recordReplay(recorder, clinicOwner, endpointPath);
  await recordOperationalEvents(recorder, endpointPath);
  await recorder.record("revokeWebhookEndpoint", "DELETE", endpointPath);
  await recordApplicationEndpoint(recorder);
  const normalize = createNormalizer({ day: recorder.sandbox.day, receiverOrigin: receiver.url });
  return normalize(recorder.recording) as Recording;
}

/** Owner of endpoints: the application, or the application at its clinic. */
interface EndpointOwner {
  /** Path of the owner's endpoints. */
  path: string;
  events: readonly string[];
  changes: object;
  /** Causes an event that the endpoint receives. */
  causeEvent(): Promise<unknown>;
}

interface Sandbox {
  clinicId: string;
  day: string;
  branches: { id: string }[];
  animals: { id: string }[];
}

/** Sends requests of one application. Records them, and the events that its receiver gets. */
class PartnerRecorder {
  readonly recording: Recording = { operations: {}, events: {} };
  private readonly service: DocumentedService;
  private readonly partner: Partner;
  readonly receiver: Receiver;
  readonly sandbox: Sandbox;

  private constructor(service: DocumentedService, partner: Partner, receiver: Receiver, sandbox: Sandbox) {
    this.service = service;
    this.partner = partner;
    this.receiver = receiver;
    this.sandbox = sandbox;
  }

  static async create(service: DocumentedService, receiver: Receiver): Promise<PartnerRecorder> {
    const { partner } = await service.createSandboxPartner();
    const { body } = await partner.request("GET", "/sandbox");
    return new PartnerRecorder(service, partner, receiver, body.sandbox);
  }

  get credentials(): object {
    const { applicationId, clientSecret, environment } = this.partner;
    return { client_id: applicationId, client_secret: clientSecret, grant_type: "client_credentials", environment };
  }

  get applicationId() {
    return this.partner.applicationId;
  }

  get log() {
    return this.service.api.command.log;
  }

  /** Context of a command that an operator runs at the sandbox's clinic. */
  get operatorContext() {
    return { ...createTestOperatorContext(), clinicId: this.sandbox.clinicId, environment: "sandbox" as const };
  }

  /** Creates a clinic in the sandbox environment and installs the application there. */
  async installAtClinic(): Promise<TestClinic> {
    const clinic = await createClinic(this.log, "sandbox");
    await installApplication(this.log, { ...this.partner, credentialId: "" }, clinic);
    return clinic;
  }

  /** Returns a time relative to the start of the sandbox's day. */
  toTime(days: number, hour: number): string {
    return new Date(Date.parse(this.sandbox.day) + (days * 24 + hour) * 3_600_000).toISOString();
  }

  request(method: Method, path: string, body?: object): Promise<PartnerResponse> {
    const headers = { "X-SERVICE-Clinic-ID": this.sandbox.clinicId, "Idempotency-Key": randomUUID() };
    return this.partner.request(method, path, { headers, ...(body && { body }) });
  }

  /** Sends a request and records it with its response. Returns the response body. */
  // biome-ignore lint/suspicious/noExplicitAny: the fields of a body depend on the operation
  async record(id: PartnerOperationId, method: Method, path: string, request?: object): Promise<any> {
    return this.add(id, await this.request(method, path, request), request);
  }

  // biome-ignore lint/suspicious/noExplicitAny: the fields of a body depend on the operation
  add(id: PartnerOperationId, { status, text, body }: PartnerResponse, request?: object): any {
    expect(status, `${id}: ${text}`).to.be.within(200, 299);
    this.recording.operations[id] ??= { ...(request && { request }), status, response: body };
    return body;
  }

  /** Waits until an event has been delivered, and records it. */
  async awaitEvent(endpointPath: string, type: string): Promise<void> {
    await eventually(`the delivery of ${type}`, async () => {
      const { body } = await this.request("GET", `${endpointPath}/deliveries`);
      const deliveries: { type: string; status: string }[] = body.deliveries;
      return deliveries.some((delivery) => delivery.type === type && delivery.status === "delivered");
    });
    const events = this.receiver.requests.map(({ body }) => JSON.parse(body));
    this.recording.events[type] = events.find((event) => event.type === type);
  }
}

async function recordSandbox(recorder: PartnerRecorder): Promise<void> {
  const tokenRequest = { ...recorder.credentials, scope: "clinic:read appointments:read appointments:write" };
  await recorder.record("exchangeToken", "POST", "/oauth/token", tokenRequest);
  await recorder.record("resetSandbox", "POST", "/sandbox/reset");
  await recorder.record("getSandboxState", "GET", "/sandbox");
  await recorder.record("listInstallations", "GET", "/installations");
  await recorder.record("getClinicContext", "GET", "/clinic/context");
  const query = `limit=2&from=${recorder.toTime(0, 0)}&to=${recorder.toTime(7, 0)}`;
  await recorder.record("listPartnerAppointments", "GET", `/appointments?${query}`);
  const { body } = await recorder.request("POST", "/appointments", createAppointmentRequest(recorder));
  const move = { scheduledAt: recorder.toTime(4, 15) };
  await recorder.record(
    "rescheduleSandboxAppointment",
    "POST",
    `/appointments/${body.appointment.id}/reschedule`,
    move,
  );
  // All appointments of the fixture are earlier.
  const search = `from=${recorder.toTime(7, 0)}&durationMinutes=60&limit=2`;
  await recorder.record("listSlots", "GET", `/slots?${search}`);
  await recorder.record("listEvents", "GET", "/events?limit=3");
}

async function recordLink(recorder: PartnerRecorder): Promise<void> {
  const { link } = await recorder.record("linkAnimal", "POST", "/animal-links", { code: SANDBOX_LINK_CODES.valid });
  await recorder.record("listAnimalLinks", "GET", "/animal-links");
  const path = `/animal-links/${link.id}`;
  await recorder.record("getAnimalLink", "GET", path);
  await recorder.record("endAnimalLink", "DELETE", path);
  const { body } = await recorder.request("POST", "/animal-links", { code: SANDBOX_LINK_CODES.readOnly });
  const withdrawal = { requestedBy: "owner" };
  await recorder.record("withdrawSandboxLink", "POST", `/animal-links/${body.link.id}/withdraw`, withdrawal);
  // With less access, later requests of the Postman collection would fail.
  const access = { animalAccess: "all", branchIds: null };
  await recorder.record("changeSandboxAccess", "POST", "/sandbox/access", access);
}

const createClinicOwner = (recorder: PartnerRecorder): EndpointOwner => ({
  path: "/webhook-endpoints",
  events: ["appointment.created", "appointment.updated"],
  changes: { branchIds: [recorder.sandbox.branches[0]?.id] },
  causeEvent: () => recorder.request("POST", "/appointments", createAppointmentRequest(recorder)),
});

/** Records all operations on the settings of a new endpoint. Returns the path of the endpoint. */
async function recordEndpoint(
  recorder: PartnerRecorder,
  { path: listPath, events, changes }: EndpointOwner,
): Promise<string> {
  const { endpoint } = await recorder.record("createWebhookEndpoint", "POST", listPath, {
    url: `${recorder.receiver.url}/${listPath.includes("application") ? "access" : "appointments"}`,
    events,
  });
  const path = `${listPath}/${endpoint.id}`;
  await recorder.record("updateWebhookEndpoint", "PATCH", path, {
    ...changes,
    headers: { "X-Api-Key": "example" },
    rateLimitPerSecond: 50,
  });
  await recorder.record("getWebhookEndpoint", "GET", path);
  await recorder.record("listWebhookEndpoints", "GET", listPath);
  await recorder.record("rotateWebhookSecret", "POST", `${path}/rotate-secret`);
  await recorder.record("testWebhookEndpoint", "POST", `${path}/test`);
  await recorder.awaitEvent(path, "endpoint.test");
  return path;
}

/** Records an endpoint of the application, and the events about the application's access. */
async function recordApplicationEndpoint(recorder: PartnerRecorder): Promise<void> {
  const owner: EndpointOwner = {
    path: "/application/webhook-endpoints",
    events: ["installation.approved", "installation.access_changed", "installation.revoked", "animal_link.withdrawn"],
    changes: {},
    causeEvent: () => recorder.installAtClinic(),
  };
  const endpointPath = await recordEndpoint(recorder, owner);
  const clinic = await recorder.installAtClinic();
  await recorder.awaitEvent(endpointPath, "installation.approved");
  const installation = { applicationId: recorder.applicationId, clinicId: clinic.clinicId };
  const context = createTestOperatorContext();
  await narrowInstallation(recorder.log, { ...installation, branchIds: [clinic.branchId] }, context);
  await recorder.awaitEvent(endpointPath, "installation.access_changed");
  await revokeInstallation(recorder.log, { ...installation, reason: null }, context);
  await recorder.awaitEvent(endpointPath, "installation.revoked");
  await recordLink(recorder);
  await recorder.awaitEvent(endpointPath, "animal_link.withdrawn");
  await recordDeliveries(recorder, endpointPath);
  await recordReplay(recorder, owner, endpointPath);
  await recorder.request("DELETE", endpointPath);
}

/** Records the list of deliveries, and the newest delivery. */
async function recordDeliveries(recorder: PartnerRecorder, endpointPath: string): Promise<void> {
  const listPath = `${endpointPath}/deliveries`;
  const { deliveries } = await recorder.record("listWebhookDeliveries", "GET", `${listPath}?limit=2`);
  await recorder.record("getWebhookDelivery", "GET", `${listPath}/${deliveries[0].id}`);
}

function createAppointmentRequest(recorder: PartnerRecorder): object {
  const [branch] = recorder.sandbox.branches;
  const [animal] = recorder.sandbox.animals;
  return { branchId: branch?.id, animalId: animal?.id, scheduledAt: recorder.toTime(3, 10), notes: "Vaccination" };
}

async function recordAppointment(recorder: PartnerRecorder, endpointPath: string): Promise<void> {
  const request = createAppointmentRequest(recorder);
  const { appointment } = await recorder.record("createPartnerAppointment", "POST", "/appointments", request);
  await recorder.record("getPartnerAppointment", "GET", `/appointments/${appointment.id}`);
  await recorder.awaitEvent(endpointPath, "appointment.created");
  const path = `/appointments/${appointment.id}`;
  await recorder.record("changeSandboxAppointmentStatus", "POST", `${path}/transitions`, { to: "confirmed" });
  await recorder.awaitEvent(endpointPath, "appointment.updated");
}

/** Records disabling and enabling the endpoint, and replays of the deliveries that were skipped in between. */
async function recordReplay(
  recorder: PartnerRecorder,
  { causeEvent }: EndpointOwner,
  endpointPath: string,
): Promise<void> {
  const listDeliveries = async (status: string): Promise<{ id: string }[]> =>
    (await recorder.request("GET", `${endpointPath}/deliveries?status=${status}`)).body.deliveries;
  await recorder.record("disableWebhookEndpoint", "POST", `${endpointPath}/disable`);
  const enabling = { replaySince: recorder.toTime(0, 0) };
  await recorder.record("enableWebhookEndpoint", "POST", `${endpointPath}/enable`, enabling);
  await recorder.request("POST", `${endpointPath}/disable`);
  for (let n = 0; n < 2; n += 1) await causeEvent();
  const [delivery] = await eventually("two skipped deliveries", async () => {
    const deliveries = await listDeliveries("skipped");
    return deliveries.length === 2 && deliveries;
  });
  await recorder.request("POST", `${endpointPath}/enable`);
  await recorder.record("replayWebhookDelivery", "POST", `${endpointPath}/deliveries/${delivery?.id}/replay`);
  await eventually("one skipped delivery", async () => (await listDeliveries("skipped")).length === 1);
  const replaysPath = `${endpointPath}/replays`;
  const request = { since: recorder.toTime(-1, 9) };
  const { replay } = await recorder.record("replayWebhookDeliveries", "POST", replaysPath, request);
  const progress = await eventually("the end of the replay", async () => {
    const replayResponse = await recorder.request("GET", `${replaysPath}/${replay.id}`);
    return replayResponse.body.replay.status === "completed" && replayResponse;
  });
  recorder.add("getWebhookReplay", progress);
}

/** Creates a second endpoint, and records the operational events about the first endpoint. */
async function recordOperationalEvents(recorder: PartnerRecorder, endpointPath: string): Promise<void> {
  const { body } = await recorder.request("POST", "/webhook-endpoints", {
    url: `${recorder.receiver.url}/operations`,
    events: ["appointment.created"],
  });
  const watcherPath = `/webhook-endpoints/${body.endpoint.id}`;
  const operationalEvents = ["endpoint.failing", "endpoint.disabled", "secret.expiring"];
  await recorder.request("PATCH", watcherPath, { events: [], operationalEvents });
  const endpointId = endpointPath.split("/").at(-1) ?? "";
  const facts: WebhookEndpointEvent[] = [
    {
      type: "WebhookEndpointFailureReported",
      data: { endpointId, since: recorder.toTime(0, 9), failedAttempts: 4 },
    },
    {
      type: "WebhookSecretExpiryReported",
      data: { endpointId, secretId: randomUUID(), expiresAt: recorder.toTime(0, 15) },
    },
  ];
  for (const fact of facts)
    await handle(recorder.log, endpointAggregate, endpointId, () => [fact], recorder.operatorContext);
  await recorder.request("POST", `${endpointPath}/disable`);
  for (const type of operationalEvents) await recorder.awaitEvent(watcherPath, type);
}
