// Journey with openapi-fetch and the types of openapi-typescript, which are generated into `partner-api.ts`.
import createClient from "openapi-fetch";
import type { paths } from "./partner-api.ts";

const { API = "", CLIENT_ID = "", CLIENT_SECRET = "" } = process.env;
const client = createClient<paths>({ baseUrl: API });

const { data: token } = await client.POST("/oauth/token", {
  body: {
    ...{ client_id: CLIENT_ID, client_secret: CLIENT_SECRET },
    ...{ grant_type: "client_credentials", environment: "sandbox" },
  },
});
client.use({ onRequest: ({ request }) => request.headers.set("Authorization", `Bearer ${token?.access_token}`) });

const { sandbox } = requireData(await client.GET("/sandbox"));
const header = { "X-SERVICE-Clinic-ID": sandbox.clinicId };
const context = requireData(await client.GET("/clinic/context", { params: { header } }));
console.log("context", context.clinic.name);

const body = { branchId: context.branches[0].id, animalId: sandbox.animals[0].id, scheduledAt: toTime(1) };
const creation = await client.POST("/appointments", {
  params: { header: { ...header, "Idempotency-Key": crypto.randomUUID() } },
  body,
});
console.log("created", creation.data?.appointment.status);

const position = creation.response.headers.get("X-SERVICE-Log-Position") ?? "";
const list = await client.GET("/appointments", {
  params: { header: { ...header, "X-SERVICE-Log-Position": position }, query: { limit: 250 } },
});
console.log(
  "listed",
  list.data?.appointments.some(({ id }) => id === creation.data?.appointment.id),
);

const registration = await client.POST("/webhook-endpoints", {
  params: { header },
  body: { url: "http://127.0.0.1:9/hooks", events: ["appointment.created"] },
});
console.log("endpoint", registration.data?.endpoint.status);

const refusal = await client.POST("/appointments", {
  params: { header: { ...header, "Idempotency-Key": crypto.randomUUID() } },
  body: { ...body, scheduledAt: toTime(-1) },
});
console.log("refused", refusal.response.status, refusal.error?.error);

function requireData<Data>({ data, error }: { data?: Data; error?: unknown }): Data {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

function toTime(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString();
}
