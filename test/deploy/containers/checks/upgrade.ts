import { readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { PROJECT_FOLDER } from "../../../../deploy/local/setup/project.ts";
import { check } from "../../report.ts";
import type { Engine } from "../engine.ts";
import type { Installation } from "../installation.ts";
import type { Partner } from "../onboard.ts";

const REQUESTS_PER_SECOND = 20;

interface LoadResult {
  /** Response bodies of the successful creates, by idempotency key. */
  created: Map<string, string>;
  requestCount: number;
  /** Failed requests as text: method, status and error. */
  failures: string[];
  maxSeconds: number;
}

/** Runs the upgrade commands in deploy/container/README.md under load. The new image contains the same release. */
export async function checkUpgrade(engine: Engine, installation: Installation, partner: Partner): Promise<void> {
  // The commands wait for health checks.
  engine.startHealthChecks();
  await check(`an upgrade at ${REQUESTS_PER_SECOND} requests a second loses no request`, async () => {
    const stopLoad = startLoad(partner);
    await sleep(2_000);
    const startedAt = Date.now();
    await installation.recreateBy(readUpgradeCommands());
    const seconds = Math.round((Date.now() - startedAt) / 1000);
    const { created, requestCount, failures, maxSeconds } = await stopLoad();
    const counts = new Map<string, number>();
    for (const failure of failures) counts.set(failure, (counts.get(failure) ?? 0) + 1);
    expect([...counts].map(([failure, count]) => `${count} × ${failure}`).join(", ")).to.equal("");
    for (const [key, body] of created) expect((await partner.createAppointment(key)).body).to.equal(body);
    return `${requestCount} requests in ${seconds} s, the slowest took ${maxSeconds.toFixed(1)} s`;
  });
}

/** Returns the commands in the section "Upgrade" of deploy/container/README.md. */
function readUpgradeCommands(): string {
  const guide = readFileSync(path.join(PROJECT_FOLDER, "deploy/container/README.md"), "utf8");
  const commands = /^### Upgrade$.*?^```sh$(.*?)^```$/ms.exec(guide)?.[1];
  if (commands === undefined) throw new Error("The guide has no commands for an upgrade");
  return commands;
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
    else if (status !== 200)
      result.failures.push(
        `${isCreate ? "POST" : "GET"} ${status} ${/"error":"(\w+)"/.exec(body)?.[1] ?? body.slice(0, 100)}`,
      );
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
