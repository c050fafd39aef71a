import { publicEventTypes, type Scope } from "../domain/events/partner.ts";

/** Declaration of a partner API operation. The command service and the query-api service use the same declarations. */
export interface PartnerOperation {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  summary: string;
  /** Scope that token, application and installation must have; null if the operation requires no token. */
  scope: Scope | null;
  /** If true, the operation needs the clinic header and an installation at that clinic. */
  requiresClinic?: boolean;
  /** If true, the operation also exists without a clinic, for the application; see {@link listMounts}. */
  isForOwner?: boolean;
  /** If true, the operation works on the application's own sandbox and needs no clinic header. */
  requiresSandbox?: boolean;
}

type Method = PartnerOperation["method"];

type Route = `${Method} /${string}`;

/** @returns a function that declares an operation with the given access rules */
const defineWith =
  <const Access extends Partial<PartnerOperation>>(access: Access) =>
  <const R extends Route>(route: R, scope: Scope | null, summary: string) => {
    const [method, path] = route.split(" ");
    return { method, path, scope, summary, ...access } as Access & {
      method: R extends `${infer M extends Method} ${string}` ? M : never;
      path: R extends `${string} ${infer P}` ? P : never;
      scope: Scope | null;
      summary: string;
    };
  };

const define = defineWith({});
const atClinic = defineWith({ requiresClinic: true });
const atSandbox = defineWith({ requiresSandbox: true });
const forOwner = defineWith({ requiresClinic: true, isForOwner: true });

const ENDPOINT = "/webhook-endpoints/:endpointId";
const DELIVERY = `${ENDPOINT}/deliveries/:deliveryId` as const;

/** Operations on webhook endpoints, which belong to an application at a clinic or to the application itself. */
const endpointOperations = {
  listWebhookEndpoints: forOwner("GET /webhook-endpoints", "webhooks:read", "List webhook endpoints"),
  createWebhookEndpoint: forOwner("POST /webhook-endpoints", "webhooks:write", "Create webhook endpoint"),
  getWebhookEndpoint: forOwner(`GET ${ENDPOINT}`, "webhooks:read", "Get webhook endpoint"),
  updateWebhookEndpoint: forOwner(`PATCH ${ENDPOINT}`, "webhooks:write", "Change webhook endpoint"),
  disableWebhookEndpoint: forOwner(`POST ${ENDPOINT}/disable`, "webhooks:write", "Disable webhook endpoint"),
  enableWebhookEndpoint: forOwner(`POST ${ENDPOINT}/enable`, "webhooks:write", "Enable webhook endpoint"),
  revokeWebhookEndpoint: forOwner(`DELETE ${ENDPOINT}`, "webhooks:write", "Revoke webhook endpoint"),
  rotateWebhookSecret: forOwner(`POST ${ENDPOINT}/rotate-secret`, "webhooks:write", "Rotate webhook signing secret"),
  testWebhookEndpoint: forOwner(`POST ${ENDPOINT}/test`, "webhooks:write", "Send a test event"),
  listWebhookDeliveries: forOwner(`GET ${ENDPOINT}/deliveries`, "webhooks:read", "List recent deliveries"),
  getWebhookDelivery: forOwner(`GET ${DELIVERY}`, "webhooks:read", "Get a delivery"),
  replayWebhookDelivery: forOwner(`POST ${DELIVERY}/replay`, "webhooks:write", "Replay a failed delivery"),
  replayWebhookDeliveries: forOwner(`POST ${ENDPOINT}/replays`, "webhooks:write", "Replay several deliveries"),
  getWebhookReplay: forOwner(`GET ${ENDPOINT}/replays/:replayId`, "webhooks:read", "Get the progress of a replay"),
};

const APPOINTMENT = "/appointments/:appointmentId";
const LINK = "/animal-links/:linkId";

/**
 * All operations of the partner API. The query-api service serves GET operations, and the command service serves all
 * other operations.
 */
export const partnerOperations = {
  exchangeToken: define("POST /oauth/token", null, "Exchange client credentials"),
  listInstallations: define("GET /installations", "clinic:read", "List installations"),
  getClinicContext: atClinic("GET /clinic/context", "clinic:read", "Get authorized clinic context"),
  listPartnerAppointments: atClinic("GET /appointments", "appointments:read", "List appointments"),
  listSlots: atClinic("GET /slots", "appointments:read", "List free times"),
  createPartnerAppointment: atClinic("POST /appointments", "appointments:write", "Create an appointment"),
  getPartnerAppointment: atClinic(`GET ${APPOINTMENT}`, "appointments:read", "Get an appointment"),
  listEvents: forOwner("GET /events", "appointments:read", "List events"),
  linkAnimal: atClinic("POST /animal-links", "animals:link", "Link an animal"),
  listAnimalLinks: atClinic("GET /animal-links", "animals:link", "List animal links"),
  getAnimalLink: atClinic(`GET ${LINK}`, "animals:link", "Get an animal link"),
  endAnimalLink: atClinic(`DELETE ${LINK}`, "animals:link", "End an animal link"),
  withdrawSandboxLink: atSandbox(`POST ${LINK}/withdraw`, "animals:link", "Withdraw the consent to a link"),
  getSandboxState: atSandbox("GET /sandbox", "sandbox:read", "Get sandbox state"),
  resetSandbox: atSandbox("POST /sandbox/reset", "sandbox:write", "Reset sandbox fixtures"),
  changeSandboxAccess: atSandbox("POST /sandbox/access", "sandbox:write", "Change the access to the sandbox"),
  changeSandboxAppointmentStatus: atSandbox(
    `POST ${APPOINTMENT}/transitions`,
    "appointments:write",
    "Change the status of an appointment",
  ),
  rescheduleSandboxAppointment: atSandbox(
    `POST ${APPOINTMENT}/reschedule`,
    "appointments:write",
    "Move an appointment",
  ),
  ...endpointOperations,
};

export type PartnerOperationId = keyof typeof partnerOperations;

/** Id of an operation on webhook endpoints. */
export type EndpointOperationId = keyof typeof endpointOperations;

export const APPLICATION_PATH = "/application";

/** Returns the operation and, if `isForOwner` is true, its copy for the application itself, below `/application`. */
export function listMounts(operation: PartnerOperation): PartnerOperation[] {
  const { path, isForOwner } = operation;
  const atApplication = { ...operation, path: `${APPLICATION_PATH}${path}`, requiresClinic: false };
  return isForOwner ? [operation, atApplication] : [operation];
}

/** Describes the operations on the application's endpoints, which the API reference does not list separately. */
const applicationText = `An endpoint can also belong to the application. All operations on its endpoints have the path \`${APPLICATION_PATH}/webhook-endpoints\` and need no clinic header. Such an endpoint receives events about the application's access to all clinics, also to those that revoke it: ${publicEventTypes.application.map((type) => `\`${type}\``).join(", ")}. It has no \`branchIds\`, \`ordering\` or \`asymmetricSignature\`.`;

type PathOf<Id extends PartnerOperationId> = (typeof partnerOperations)[Id]["path"];

/** First segment of an operation's path. The documents group operations by this segment. */
type Segment = {
  [Id in PartnerOperationId]: `${PathOf<Id>}/` extends `/${infer First}/${string}` ? First : never;
}[PartnerOperationId];

export const sections: Readonly<Record<Segment, { name: string; description: string }>> = {
  oauth: { name: "Access tokens", description: "Exchange credentials for an access token." },
  installations: { name: "Installations", description: "List the clinics that have approved your application." },
  clinic: { name: "Clinic", description: "Read the clinic, its branches and the installation's scopes." },
  appointments: { name: "Appointments", description: "List, create and book appointments." },
  slots: { name: "Free times", description: "Find free times of the clinic's resources." },
  events: { name: "Events", description: "Read the events of a clinic, or of all clinics, in their order." },
  "animal-links": { name: "Animal links", description: "Link animals with the consent of their owners." },
  "webhook-endpoints": {
    name: "Webhook endpoints",
    description: `Manage webhook endpoints. List and replay deliveries. ${applicationText}`,
  },
  sandbox: { name: "Sandbox", description: "Read and reset your application's test clinic." },
};

/**
 * Returns the name of the log position header. Responses to writes contain this header. If a partner sends it with a
 * read, the response reflects the write, or the read fails with 503. The value is opaque to partners.
 */
export function getPositionHeader(brand: string): string {
  return `X-${brand}-Log-Position`;
}
