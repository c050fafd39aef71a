import type { Installation, Response } from "./installation.ts";

/** A clinic with a partner's application, set up by the commands in docs/operations/onboarding.md. */
export interface Partner {
  clinicId: string;
  applicationId: string;
  branchId: string;
  animalId: string;
  /** Approves an origin of webhook URLs. */
  approveOrigin(origin: string): Promise<void>;
  get(path: string): Promise<Response>;
  post(path: string, body: object, idempotencyKey?: string): Promise<Response>;
  createAppointment(idempotencyKey: string): Promise<Response>;
}

const SCOPES = "clinic:read,appointments:read,appointments:write,webhooks:read,webhooks:write";

const API = "/production/v1";

export async function onboard({ clinic, request }: Installation, slug: string): Promise<Partner> {
  const create = async (...args: string[]) => (JSON.parse(await clinic(...args, "--json")) as { id: string }).id;
  const options = ["--timezone", "Europe/Zurich", "--currency", "CHF", "--locale", "de-CH", "--city", "Zug"];
  const clinicId = await create("clinic", "register", "--slug", slug, "--name", "Lake Vets", ...options);
  await clinic("clinic", "subscribe", "--id", clinicId, "--plan", "professional", "--status", "active");
  const branchId = await create("branch", "open", "--clinic", clinicId, "--name", "Zug");
  const permissions = ["--permissions", "manage_tenant,manage_schedule,view_clinical,manage_staff"];
  const owner = ["--clinic", clinicId, "--user", crypto.randomUUID(), "--role", "owner"];
  const ownerId = await create("membership", "grant", ...owner, ...permissions);
  await clinic("membership", "accept", "--clinic", clinicId, "--id", ownerId);
  const customerId = await create("customer", "register", "--clinic", clinicId, "--full-name", "Ada Example");
  const animal = ["--clinic", clinicId, "--customer", customerId, "--name", "Luna", "--species", "cat"];
  const animalId = await create("animal", "register", ...animal);
  const application = ["--name", "Pet Planner", "--environment", "production", "--scopes", SCOPES];
  const applicationId = await create("partner", "register", ...application);
  const issued = JSON.parse(await clinic("partner", "issue-credential", "--application", applicationId, "--json"));
  const installation = ["--application", applicationId, "--clinic", clinicId];
  await clinic("installation", "request", ...installation, "--scopes", SCOPES);
  const approval = ["--membership", ownerId, "--animal-access", "all", "--rate-limit", "10000"];
  await clinic("installation", "approve", ...installation, ...approval);

  const credentials = Buffer.from(`${issued.clientId}:${issued.clientSecret}`).toString("base64");
  const tokenResponse = await request(`${API}/oauth/token`, {
    method: "POST",
    headers: { authorization: `Basic ${credentials}`, "content-type": "application/x-www-form-urlencoded" },
    body: "grant_type=client_credentials",
  });
  if (tokenResponse.status !== 200) throw new Error(`token request: ${tokenResponse.status} ${tokenResponse.body}`);
  const headers = {
    authorization: `Bearer ${JSON.parse(tokenResponse.body).access_token}`,
    "x-service-clinic-id": clinicId,
    "content-type": "application/json",
  };
  const post = (path: string, body: object, idempotencyKey?: string) =>
    request(`${API}${path}`, {
      method: "POST",
      headers: { ...headers, ...(idempotencyKey ? { "idempotency-key": idempotencyKey } : {}) },
      body: JSON.stringify(body),
    });
  return {
    clinicId,
    applicationId,
    branchId,
    animalId,
    async approveOrigin(origin) {
      await clinic("partner", "approve-origin", "--application", applicationId, "--origin", origin);
    },
    get: (path) => request(`${API}${path}`, { headers }),
    post,
    createAppointment: (key) =>
      post("/appointments", { branchId, animalId, scheduledAt: "2030-12-02T09:00:00+01:00" }, key),
  };
}
