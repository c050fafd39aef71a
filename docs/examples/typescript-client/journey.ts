// Creates an appointment and receives its webhook. All requests, responses and events have generated types.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import createClient from "openapi-fetch";
import { Webhook } from "standardwebhooks";
import type { paths, webhooks } from "./partner-api.ts";

type AppointmentEvent = webhooks["appointment.created"]["post"]["requestBody"]["content"]["application/json"];

const { API = "", CLIENT_ID = "", CLIENT_SECRET = "" } = process.env;
const client = createClient<paths>({ baseUrl: API });

/** Returns the body of a successful response. */
function requireData<Data>(result: { data?: Data; error?: unknown; response: Response }): Data {
  if (result.data !== undefined) return result.data;
  throw new Error(`${result.response.status} ${JSON.stringify(result.error)}`);
}

const { access_token: token } = requireData(
  await client.POST("/oauth/token", {
    body: {
      client_id: CLIENT_ID,
      client_secret: CLIENT_SECRET,
      grant_type: "client_credentials",
      environment: "sandbox",
    },
  }),
);
client.use({ onRequest: ({ request }) => request.headers.set("Authorization", `Bearer ${token}`) });

const { sandbox } = requireData(await client.GET("/sandbox"));
const header = { "X-SERVICE-Clinic-ID": sandbox.clinicId };
const { clinic, branches } = requireData(await client.GET("/clinic/context", { params: { header } }));
console.log(clinic.name);
const [branch] = branches;
const [animal] = sandbox.animals;
if (!branch || !animal) throw new Error("The sandbox has no branch or no animal.");

const receiver = createServer();
receiver.listen(0, "127.0.0.1");
await once(receiver, "listening");
const { endpoint, secret } = requireData(
  await client.POST("/webhook-endpoints", {
    params: { header },
    body: {
      url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/webhooks`,
      events: ["appointment.created"],
    },
  }),
);

const webhookPromise = once(receiver, "request");
const scheduledAt = new Date(Date.now() + 86_400_000).toISOString();
const { appointment } = requireData(
  await client.POST("/appointments", {
    params: { header: { ...header, "Idempotency-Key": crypto.randomUUID() } },
    body: { branchId: branch.id, animalId: animal.id, scheduledAt },
  }),
);
const [request, response] = await webhookPromise;
const event = new Webhook(secret).verify(await text(request), request.headers) as AppointmentEvent;
response.writeHead(204).end();
console.log(event.type, event.data.appointment.id === appointment.id);

const query = { from: scheduledAt, limit: 250 };
const { appointments } = requireData(await client.GET("/appointments", { params: { header, query } }));
console.log(appointments.some(({ id, status }) => id === appointment.id && status === "requested"));

const params = { header, path: { endpointId: endpoint.id } };
requireData(await client.DELETE("/webhook-endpoints/{endpointId}", { params }));
receiver.close();
