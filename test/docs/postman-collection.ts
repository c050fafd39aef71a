/** Creates a collection for Postman, Bruno and other API clients from the OpenAPI document of the partner API. */
import type { JsonSchema, OpenApiDocument, Operation, Parameter } from "../../query-api/docs/openapi.ts";

interface Field {
  key: string;
  value: string;
  description?: string;
  disabled?: boolean;
}

export interface CollectionRequest {
  method: string;
  description: string;
  header: Field[];
  url: { raw: string; host: string[]; path: string[]; query?: Field[] };
  auth?: { type: "noauth" };
  body?: { mode: "raw"; raw: string; options: { raw: { language: "json" } } };
}

export interface CollectionItem {
  name: string;
  request: CollectionRequest;
  event?: { listen: "prerequest" | "test"; script: { type: "text/javascript"; exec: string[] } }[];
  response: { name: string; code: number; header: Field[]; body: string }[];
}

interface CollectionFolder {
  name: string;
  description: string;
  item: CollectionItem[];
}

export interface Collection {
  info: { name: string; description: string; schema: string };
  auth: { type: "bearer"; bearer: [{ key: "token"; value: string; type: "string" }] };
  variable: Field[];
  item: CollectionFolder[];
}

const COLLECTION_SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json";

const INTRODUCTION = `Requests to all operations of the partner API, with recorded responses.

Set the variables \`baseUrl\`, \`clientId\` and \`clientSecret\`. Then send "Exchange client credentials" and "Get sandbox
state". They set the variables that the other requests need. "Create an appointment" sets \`appointmentId\`, "Link an
animal" sets \`linkId\`, "Create webhook endpoint" sets \`endpointId\`, "Send a test event" sets \`deliveryId\`, and "Replay several deliveries" sets
\`replayId\`.`;

/** Initial values of the collection's variables. Scripts or the user set the empty ones. */
const VARIABLES: Readonly<Record<string, string>> = {
  baseUrl: "http://127.0.0.1:8080/sandbox/v1",
  clientId: "",
  clientSecret: "",
  webhookUrl: "http://127.0.0.1:9000/webhooks",
  token: "",
  clinicId: "",
  branchId: "",
  animalId: "",
  scheduledAt: "",
  appointmentId: "",
  linkId: "",
  endpointId: "",
  deliveryId: "",
  replayId: "",
};

/** Replacements for fields in recorded request bodies. */
const FIELD_VARIABLES: Readonly<Record<string, unknown>> = {
  client_id: "{{clientId}}",
  client_secret: "{{clientSecret}}",
  // The token gets all scopes of the application.
  scope: "",
  branchId: "{{branchId}}",
  branchIds: ["{{branchId}}"],
  animalId: "{{animalId}}",
  scheduledAt: "{{scheduledAt}}",
  url: "{{webhookUrl}}",
};

/** Scripts that set variables from a response, by operation id. */
const RESPONSE_SCRIPTS: Readonly<Record<string, string[]>> = {
  exchangeToken: ['pm.collectionVariables.set("token", pm.response.json().access_token);'],
  getSandboxState: [
    "const { sandbox } = pm.response.json();",
    'pm.collectionVariables.set("clinicId", sandbox.clinicId);',
    'pm.collectionVariables.set("branchId", sandbox.branches[0].id);',
    'pm.collectionVariables.set("animalId", sandbox.animals[0].id);',
  ],
  createPartnerAppointment: ['pm.collectionVariables.set("appointmentId", pm.response.json().appointment.id);'],
  linkAnimal: ['pm.collectionVariables.set("linkId", pm.response.json().link.id);'],
  createWebhookEndpoint: ['pm.collectionVariables.set("endpointId", pm.response.json().endpoint.id);'],
  testWebhookEndpoint: ['pm.collectionVariables.set("deliveryId", pm.response.json().delivery.id);'],
  replayWebhookDeliveries: ['pm.collectionVariables.set("replayId", pm.response.json().replay.id);'],
};

/** Scripts that run before a request, by operation id. */
const REQUEST_SCRIPTS: Readonly<Record<string, string[]>> = {
  createPartnerAppointment: [
    'pm.collectionVariables.set("scheduledAt", new Date(Date.now() + 86400000).toISOString());',
  ],
};

/**
 * Creates the collection with one request for each operation, in a folder for each tag. Recorded bodies contain
 * variables instead of ids, times and credentials. The requests can be sent in order, so DELETE requests come last.
 */
export function createCollection({ info, tags, paths }: OpenApiDocument): Collection {
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  return {
    info: { name: info.title, description: INTRODUCTION, schema: COLLECTION_SCHEMA },
    auth: { type: "bearer", bearer: [{ key: "token", value: "{{token}}", type: "string" }] },
    variable: Object.entries(VARIABLES).map(([key, value]) => ({ key, value })),
    item: sortFolders(tags)
      .map(({ name, description }) => ({
        name,
        description,
        item: operations
          .filter(({ operation }) => operation.tags.includes(name))
          .sort((a, b) => Number(a.method === "DELETE") - Number(b.method === "DELETE"))
          .map(({ path, method, operation }) => createItem(path, method, operation)),
      }))
      // The tag of the webhooks has no operations.
      .filter(({ item }) => item.length > 0),
  };
}

/** Moves the sandbox folder to the second position, because its responses set variables for the other requests. */
function sortFolders(tags: OpenApiDocument["tags"]): OpenApiDocument["tags"] {
  const [accessTokens, ...others] = tags;
  const rank = ({ name }: { name: string }) => (name === "Sandbox" ? 0 : 1);
  return accessTokens ? [accessTokens, ...others.sort((a, b) => rank(a) - rank(b))] : [];
}

function createItem(path: string, method: string, operation: Operation): CollectionItem {
  const { operationId, summary, description, parameters, requestBody, responses } = operation;
  const hasToken = operation.security.some((schemes) => Object.values(schemes).some((scopes) => scopes.length > 0));
  const requestExample = requestBody?.content["application/json"]?.example;
  const segments = path
    .slice(1)
    .replace(/\{(\w+)\}/g, "{{$1}}")
    .split("/");
  const query = parameters.filter(isIn("query")).map((parameter) => ({ ...toField(parameter), disabled: true }));
  const events = [
    ...createEvents("prerequest", REQUEST_SCRIPTS[operationId]),
    ...createEvents("test", RESPONSE_SCRIPTS[operationId]),
  ];
  return {
    name: summary,
    request: {
      method,
      description,
      ...(!hasToken && { auth: { type: "noauth" } }),
      header: [
        ...parameters.filter(isIn("header")).map(toField),
        ...(requestExample === undefined ? [] : [{ key: "Content-Type", value: "application/json" }]),
      ],
      url: {
        raw: `{{baseUrl}}/${segments.join("/")}`,
        host: ["{{baseUrl}}"],
        path: segments,
        ...(query.length > 0 && { query }),
      },
      ...(requestExample !== undefined && { body: createBody(requestExample) }),
    },
    ...(events.length > 0 && { event: events }),
    response: Object.entries(responses).flatMap(([status, { description: name, content }]) => {
      const example = content?.["application/json"]?.example;
      const header = [{ key: "Content-Type", value: "application/json; charset=utf-8" }];
      return example === undefined || !status.startsWith("2")
        ? []
        : [{ name, code: Number(status), header, body: toJson(example) }];
    }),
  };
}

const isIn = (location: Parameter["in"]) => (parameter: Parameter) => parameter.in === location;

/** Creates a header or query parameter. Optional parameters are disabled, except the idempotency key. */
function toField({ name, required, description, schema }: Parameter): Field {
  const value = findParameterValue(name, schema);
  return { key: name, value, description, ...(!required && value !== "{{$guid}}" && { disabled: true }) };
}

function findParameterValue(name: string, schema: JsonSchema): string {
  if (name === "Idempotency-Key") return "{{$guid}}";
  const [, variable] = /^X-\w+-(Clinic|Branch)-ID$/.exec(name) ?? [];
  if (variable) return `{{${variable.toLowerCase()}Id}}`;
  return String(schema.default ?? "");
}

function createEvents(listen: "prerequest" | "test", exec: string[] | undefined) {
  return exec ? [{ listen, script: { type: "text/javascript" as const, exec } }] : [];
}

function createBody(example: unknown): NonNullable<CollectionRequest["body"]> {
  const fields = Object.entries(example as object).map(([name, value]) => [name, FIELD_VARIABLES[name] ?? value]);
  return { mode: "raw", raw: toJson(Object.fromEntries(fields)), options: { raw: { language: "json" } } };
}

function toJson(value: unknown): string {
  return JSON.stringify(value, null, 2);
}
