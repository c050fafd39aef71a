import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { type Installation, SERVICES } from "../installation.ts";
import type { Partner } from "../onboard.ts";
import type { Report } from "../report.ts";

const REQUESTS_PER_SECOND = 20;

interface LoadResult {
  /** Responses to the acknowledged creates, by idempotency key. */
  created: Map<string, string>;
  requestCount: number;
  /** Failures as text, such as `POST 502`. */
  failures: string[];
  maxSeconds: number;
}

/** Upgrades as the README describes, under load. The new image is the same release. */
export async function checkUpgrade(report: Report, installation: Installation, partner: Partner): Promise<void> {
  await report.check(
    `an upgrade at ${REQUESTS_PER_SECOND} requests a second loses no create, and only delays reads`,
    async () => {
      const stopLoad = startLoad(partner);
      await sleep(2_000);
      const startedAt = Date.now();
      await upgrade(installation);
      const seconds = Math.round((Date.now() - startedAt) / 1000);
      const { created, requestCount, failures, maxSeconds } = await stopLoad();
      // While the only projection process restarts, a read that must reflect the caller's own write returns 503.
      const isDelayedRead = (failure: string) => failure === "GET 503";
      expect(failures.filter((failure) => !isDelayedRead(failure))).to.deep.equal([]);
      for (const [key, body] of created) expect((await partner.createAppointment(key)).body).to.equal(body);
      return `${requestCount} requests, ${failures.length} reads with 503, in ${seconds} s, the slowest took ${maxSeconds.toFixed(1)} s`;
    },
  );
}

/** The commands of the section "Upgrade" in deploy/container/README.md. `--force-recreate` stands for a new image. */
async function upgrade({ compose, clinic }: Installation): Promise<void> {
  const replace = (service: string) => compose(["up", "--detach", "--no-deps", "--force-recreate", service]);
  await replace("clinic");
  await clinic("projection", "migrate");
  for (const service of SERVICES) await replace(service);
}

/** Sends reads and creates at a constant rate. @returns a function that stops the load and waits for all responses */
function startLoad(partner: Partner): () => Promise<LoadResult> {
  const result: LoadResult = { created: new Map(), requestCount: 0, failures: [], maxSeconds: 0 };
  const pending = new Set<Promise<void>>();
  const sendOne = async () => {
    const key = `during-the-upgrade-${result.requestCount++}`;
    const isCreate = result.requestCount % 2 === 0;
    const startedAt = performance.now();
    const sent = isCreate ? partner.createAppointment(key) : partner.get("/appointments?limit=5");
    const { status, body } = await sent.catch((error: Error) => ({ status: error.message, body: "" }));
    result.maxSeconds = Math.max(result.maxSeconds, (performance.now() - startedAt) / 1000);
    if (status === 201) result.created.set(key, body);
    else if (status !== 200) result.failures.push(`${isCreate ? "POST" : "GET"} ${status}`);
  };
  const timer = setInterval(() => {
    const promise = sendOne().finally(() => pending.delete(promise));
    pending.add(promise);
  }, 1000 / REQUESTS_PER_SECOND);
  return async () => {
    clearInterval(timer);
    await Promise.all(pending);
    return result;
  };
}
