/**
 * A partner's program that creates appointments. Repeats each create with the same idempotency key until it succeeds.
 */
import { randomUUID } from "node:crypto";
import type { LookupFunction } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "undici";
import { getAddresses, PUBLIC_NAME } from "./network.ts";

/** Ids and client secret that the onboarding creates. */
export interface Account {
  clinic: string;
  branch: string;
  animal: string;
  application: string;
  secret: string;
}

export interface Partner {
  /** Time of each acknowledged create, by appointment id. Milliseconds since 1970. */
  acknowledged: Map<string, number>;
  /** Returns the number of failed creates: no response in time, or a status other than 201. */
  getRetryCount(): number;
  get(path: string): Promise<number>;
  /** Starts to create appointments. The returned function stops this and waits until all creates are acknowledged. */
  startCreating(): () => Promise<void>;
  close(): Promise<void>;
}

const API = `https://${PUBLIC_NAME}/production/v1`;
/** Time between two creates. Milliseconds. */
const INTERVAL_MS = 250;
const REQUEST_TIMEOUT_MS = 5_000;
const RETRY_PAUSE_MS = 500;

/** Resolves a host to all its addresses in random order, as DNS round robin does. */
const lookup: LookupFunction = (host, _options, callback) => {
  const found = getAddresses(host).map((address) => ({ address, family: 4 }));
  callback(null, Math.random() < 0.5 ? found : found.toReversed());
};

/** @param authority certificate of the private authority */
export function createPartner(account: Account, authority: string): Partner {
  const dispatcher = new Agent({ autoSelectFamily: true, connect: { ca: authority, lookup } });
  const acknowledged: Partner["acknowledged"] = new Map();
  let retryCount = 0;
  let token: string | undefined;

  const send = async (url: string, options: Parameters<typeof request>[1] = {}) => {
    const response = await request(url, { ...options, dispatcher, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) });
    return { status: response.statusCode, text: await response.body.text() };
  };

  const getToken = async () => {
    if (token !== undefined) return token;
    const credentials = Buffer.from(`${account.application}:${account.secret}`).toString("base64");
    const headers = { authorization: `Basic ${credentials}`, "content-type": "application/x-www-form-urlencoded" };
    const { status, text } = await send(`${API}/oauth/token`, {
      method: "POST",
      headers,
      body: "grant_type=client_credentials",
    });
    if (status !== 200) throw new Error(`token request: ${status}`);
    token = (JSON.parse(text) as { access_token: string }).access_token;
    return token;
  };

  const getHeaders = async () => ({
    authorization: `Bearer ${await getToken()}`,
    "x-service-clinic-id": account.clinic,
  });

  const createOnce = async (key: string) => {
    const body = { branchId: account.branch, animalId: account.animal, scheduledAt: "2026-12-01T09:00:00+01:00" };
    const { status, text } = await send(`${API}/appointments`, {
      method: "POST",
      headers: { ...(await getHeaders()), "content-type": "application/json", "idempotency-key": key },
      body: JSON.stringify(body),
    });
    if (status === 401) token = undefined;
    if (status !== 201) throw new Error(`status ${status}`);
    return text;
  };

  const create = async () => {
    const key = randomUUID();
    for (;;) {
      try {
        acknowledged.set(readId(await createOnce(key)), Date.now());
        return;
      } catch {
        retryCount += 1;
        await sleep(RETRY_PAUSE_MS);
      }
    }
  };

  return {
    acknowledged,
    getRetryCount: () => retryCount,
    async get(path) {
      const isPartnerPath = path.startsWith("/production/");
      const { status } = await send(
        `https://${PUBLIC_NAME}${path}`,
        isPartnerPath ? { headers: await getHeaders() } : {},
      );
      return status;
    },
    startCreating() {
      const pending = new Set<Promise<void>>();
      const timer = setInterval(() => {
        const creation = create();
        pending.add(creation);
        void creation.then(() => pending.delete(creation));
      }, INTERVAL_MS);
      return async () => {
        clearInterval(timer);
        await Promise.all(pending);
      };
    },
    close: () => dispatcher.destroy(),
  };
}

function readId(text: string): string {
  const body = JSON.parse(text) as { appointment: { id: string } };
  return body.appointment.id;
}
