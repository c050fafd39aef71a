import type { Installation, Response } from "./installation.ts";

/** A clinic with a partner's application, created with the commands in docs/operations/onboarding.md. */
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
  const create = async (field: string, ...args: string[]): Promise<string> =>
    JSON.parse(await clinic(...args, "--json"))[field];
  const options = ["--timezone", "Europe/Zurich", "--currency", "CHF", "--locale", "de-CH", "--city", "Zug"];
  const clinicId = await create("clinicId", "clinic", "register", "--slug", slug, "--name", "Lake Vets", ...options);
  await clinic("clinic", "subscribe", "--clinic", clinicId, "--plan", "professional", "--status", "active");
  const branchId = await create("branchId", "branch", "open", "--clinic", clinicId, "--name", "Zug");
  const permissions = ["--permissions", "manage_tenant,manage_schedule,view_clinical,manage_staff"];
  const owner = ["--clinic", clinicId, "--user", crypto.randomUUID(), "--role", "owner"];
  const ownerId = await create("membershipId", "membership", "grant", ...owner, ...permissions);
  await clinic("membership", "accept", "--clinic", clinicId, "--membership", ownerId);
  const customerId = await create(
    "customerId",
    "customer",
    "register",
    "--clinic",
    clinicId,
    "--full-name",
    "Ada Example",
  );
  const animal = ["--clinic", clinicId, "--customer", customerId, "--name", "Luna", "--species", "cat"];
  const animalId = await create("animalId", "animal", "register", ...animal);
  const application = ["--name", "Pet Planner", "--environment", "production", "--scopes", SCOPES];
  const applicationId = await create("applicationId", "partner", "register", ...application);
  const issued = JSON.parse(await clinic("partner", "issue-credential", "--application", applicationId, "--json"));
  const installation = ["--application", applicationId, "--clinic", clinicId];
  await clinic("installation", "request", ...installation, "--scopes", SCOPES);
  const approval = ["--membership", ownerId, "--animal-access", "all", "--rate-limit-per-minute", "10000"];
  await clinic("installation", "approve", ...installation, ...approval);

  const credentials = Buffer.from(`${issued.applicationId}:${issued.clientSecret}`).toString("base64");
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
