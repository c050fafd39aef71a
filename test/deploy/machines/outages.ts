/** Stops each machine for a minute under load, and checks what the guide promises for the loss of a machine. */
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../../support/eventually.ts";
import { check } from "../report.ts";
import type { Administrator } from "./administrator.ts";
import type { Step } from "./guide.ts";
import { runStep } from "./installation.ts";
import { cutPower, type Machine, runOn, startMachine } from "./machine.ts";
import type { Partner } from "./partner.ts";
import type { Receiver } from "./receiver.ts";

const OUTAGE_MS = 60_000;
/** Time from the loss of the primary until the standby is promoted, as a person needs time to react. Milliseconds. */
const REACTION_MS = 20_000;
/** Longest permitted time between two acknowledged creates or two webhooks. Elections take seconds. Milliseconds. */
const MAX_PAUSE_MS = 25_000;
const RETURN_TIMEOUT_MS = 180_000;

export interface World {
  steps: readonly Step[];
  administrator: Administrator;
  partner: Partner;
  receiver: Receiver;
}

/** Stops a machine that is not the Postgres primary, and starts it again. */
export async function loseMachine(machine: Machine, world: World): Promise<void> {
  const startedAt = Date.now();
  await cutPower(machine);
  await sleep(OUTAGE_MS);
  await checkPauses(`while ${machine} is down`, { from: startedAt, webhooksFrom: startedAt }, world);
  await startMachine(machine);
  await checkReturn(machine, world);
}

/** Stops the Postgres primary `a`, promotes `b`, and makes `a` a standby, with the commands in the guide. */
export async function losePrimary(world: World): Promise<void> {
  const { steps, administrator } = world;
  const startedAt = Date.now();
  await cutPower("a");
  await sleep(REACTION_MS);
  let promotedAt = Date.now();
  const lossSteps = steps.filter(({ section }) => section === "If a machine is lost");
  await check('the promotion of a standby, with the commands of "If a machine is lost"', async () => {
    for (const step of lossSteps) if (!step.machines.includes("a")) await runStep(step, administrator);
    promotedAt = Date.now();
  });
  await sleep(OUTAGE_MS - (Date.now() - startedAt));
  await checkPauses("while the primary a is down", { from: startedAt, webhooksFrom: promotedAt }, world);
  await startMachine("a");
  await check("the former primary does not start while another machine is the primary", async () => {
    const unit = "clinic-postgres.service";
    const count = () => runOn("a", `systemctl show --property NRestarts --value ${unit}`).then(Number);
    await eventually("systemd tries to start it twice", async () => (await count()) >= 2, RETURN_TIMEOUT_MS);
    const processCount = Number(await runOn("a", "pgrep --count --exact postgres || true"));
    if (processCount > 0) throw new Error("Postgres is running");
  });
  await check("the former primary becomes a standby, with the commands of the guide", async () => {
    for (const step of lossSteps) if (step.machines.includes("a")) await runStep(step, administrator);
    const copy = steps.find(({ script }) => script.includes("pg_basebackup"));
    if (!copy) throw new Error("the guide does not create standbys with pg_basebackup");
    await runStep({ ...copy, machines: ["a"] }, administrator);
  });
  await checkReturn("a", world, "b");
}

/** Checks that creates and webhooks did not pause too long since the given times. Milliseconds since 1970. */
async function checkPauses(
  label: string,
  { from, webhooksFrom }: { from: number; webhooksFrom: number },
  { partner, receiver }: World,
): Promise<void> {
  const now = Date.now();
  const measure = (times: Iterable<number>, since: number) => async () => {
    const pauseMs = findLongestPause(times, since, now);
    if (pauseMs > MAX_PAUSE_MS) throw new Error(`a pause of ${(pauseMs / 1_000).toFixed(1)} s`);
    return `longest pause ${(pauseMs / 1_000).toFixed(1)} s`;
  };
  await check(`creates continue ${label}`, measure(partner.acknowledged.values(), from));
  const since = webhooksFrom === from ? "" : " after the promotion";
  await check(`webhooks continue ${label}${since}`, measure(receiver.arrivals.values(), webhooksFrom));
}

/** Checks with the commands in the guide that the servers and services of a restarted machine work. */
async function checkReturn(machine: Machine, { steps, administrator }: World, primary: Machine = "a"): Promise<void> {
  await check(`${machine} works again after its start`, async () => {
    const startedAt = Date.now();
    for (const step of steps)
      if (/gossip|jsz/.test(step.script)) await runStep(step, administrator);
      else if (step.script.includes("pg_stat_replication"))
        await runStep({ ...step, machines: [primary] }, administrator);
    if (machine !== "c")
      for (const port of [8081, 8082, 8083, 8084, 8085])
        await eventually(
          `port ${port} is ready`,
          () =>
            runOn(machine, `curl --fail --silent http://${machine}.example:${port}/health/ready`).then(
              () => true,
              () => false,
            ),
          RETURN_TIMEOUT_MS,
        );
    return `after ${((Date.now() - startedAt) / 1_000).toFixed(0)} s`;
  });
}

/** Returns the longest time without an event between two times. Milliseconds. */
function findLongestPause(times: Iterable<number>, from: number, to: number): number {
  const events = [...times].filter((time) => time >= from && time <= to).toSorted((a, b) => a - b);
  return [...events, to].reduce(
    ({ longest, last }, time) => ({ longest: Math.max(longest, time - last), last: time }),
    { longest: 0, last: from },
  ).longest;
}
