// Gets an access token, reads the sandbox and creates an appointment.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const { API, CLIENT_ID, CLIENT_SECRET } = process.env;

/** Sends a request. After 429 and 503, waits and repeats it. This is safe: see "Idempotency" in the guide. */
async function call<Body>(method: string, path: string, headers: Record<string, string>, body?: object): Promise<Body> {
  for (let attempt = 1; ; attempt += 1) {
    const response = await fetch(API + path, {
      method,
      headers: { ...headers, ...(body && { "Content-Type": "application/json" }) },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    });
    if (response.ok) return (await response.json()) as Body;
    const canRetry = response.status === 429 || response.status === 503;
    if (!canRetry || attempt === 5) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    await sleep(1_000 * Number(response.headers.get("Retry-After") ?? 1));
  }
}

interface Sandbox {
  clinicId: string;
  branches: [{ id: string }];
  animals: [{ id: string }];
}

const credentials = { client_id: CLIENT_ID, client_secret: CLIENT_SECRET, environment: "sandbox" };
const tokenRequest = { ...credentials, grant_type: "client_credentials" };
const { access_token: token } = await call<{ access_token: string }>("POST", "/oauth/token", {}, tokenRequest);

const authorization = { Authorization: `Bearer ${token}` };
const { sandbox } = await call<{ sandbox: Sandbox }>("GET", "/sandbox", authorization);

const headers = {
  ...authorization,
  "X-SERVICE-Clinic-ID": sandbox.clinicId,
  // Store the key with your booking, so that a retry after a crash uses the same key.
  "Idempotency-Key": randomUUID(),
};
const { appointment } = await call<{ appointment: { id: string; status: string } }>("POST", "/appointments", headers, {
  branchId: sandbox.branches[0].id,
  animalId: sandbox.animals[0].id,
  scheduledAt: new Date(Date.now() + 86_400_000).toISOString(),
  notes: "Vaccination",
});
console.log(appointment.id, appointment.status);
