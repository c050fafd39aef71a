// Journey with the client of @hey-api/openapi-ts, which is generated into the folder `client`.

import { client } from "./client/client.gen.ts";
import * as api from "./client/index.ts";

const { API = "", CLIENT_ID = "", CLIENT_SECRET = "" } = process.env;
client.setConfig({ baseUrl: API, throwOnError: true });

const credentials = { client_id: CLIENT_ID, client_secret: CLIENT_SECRET };
const token = await api.exchangeToken<true>({
  body: { ...credentials, grant_type: "client_credentials", environment: "sandbox" },
});
client.setConfig({ auth: token.data.access_token });

const { sandbox } = (await api.getSandboxState<true>()).data;
const headers = { "X-SERVICE-Clinic-ID": sandbox.clinicId };
const { clinic, branches } = (await api.getClinicContext<true>({ headers })).data;
console.log("context", clinic.name);

const body = { branchId: branches[0].id, animalId: sandbox.animals[0].id, scheduledAt: toTime(1) };
const creation = await api.createPartnerAppointment<true>({
  headers: { ...headers, "Idempotency-Key": crypto.randomUUID() },
  body,
});
const { appointment } = creation.data;
console.log("created", appointment.status);

const position = creation.response.headers.get("X-SERVICE-Log-Position") ?? "";
const list = await api.listPartnerAppointments<true>({
  headers: { ...headers, "X-SERVICE-Log-Position": position },
  query: { limit: 250 },
});
console.log(
  "listed",
  list.data.appointments.some(({ id }) => id === appointment.id),
);

const registration = await api.createWebhookEndpoint<true>({
  headers,
  body: { url: "http://127.0.0.1:9/hooks", events: ["appointment.created"] },
});
console.log("endpoint", registration.data.endpoint.status);

const refusal = await api.createPartnerAppointment({
  headers: { ...headers, "Idempotency-Key": crypto.randomUUID() },
  body: { ...body, scheduledAt: toTime(-1) },
  throwOnError: false,
});
console.log("refused", refusal.response?.status, refusal.error?.error);

function toTime(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString();
}
