import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { pino } from "pino";
import type { WebhooksContext } from "../../../projection/webhooks/context.ts";
import { MAX_ATTEMPTS } from "../../../projection/webhooks/schedule/schedule.ts";
import { Sender } from "../../../projection/webhooks/sender.ts";
import { createNotifier } from "../../../shared/runtime/backoff.ts";
import { eventually } from "../../support/eventually.ts";

describe("a sender that cannot record outcomes", () => {
  it("claims no more deliveries than fit into its buffer, in addition to the attempts in progress", async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const logger = pino({ enabled: false });
    let claimedCount = 0;
    let searchCount = 0;
    const claim = ([, , , endpointIds, counts]: [unknown, unknown, unknown, string[], number[]]) =>
      endpointIds.map((endpointId, index) => {
        const capacity = counts[index] ?? 0;
        claimedCount += capacity;
        const [applicationId] = endpointId.split(" ");
        // Without an event, an attempt fails before a request is sent.
        const delivery = { endpointId, applicationId, environment: "sandbox", event: null, failedAttemptCount: 0 };
        const deliveries = Array.from({ length: capacity }, () => ({ deliveryId: randomUUID(), ...delivery }));
        return { ordinal: index + 1, isFailing: false, capacity, pauseMs: 0, deliveries };
      });
    const query = async ({ name, values }: { name: string; values: Parameters<typeof claim>[0] }) => {
      if (name === "claim due deliveries") return { rows: claim(values) };
      if (name !== "find due endpoints") throw new Error("Postgres is not available.");
      searchCount += 1;
      return { rows: [] };
    };
    const context = {
      ...{ pool: { query }, logger, clock: Date.now, random: Math.random, retryScheduleSeconds: [] },
      ...{ connectTimeoutMs: 1_000, timeoutMs: 1_000, searchNotifier: createNotifier(), onDue: () => undefined },
      createLoop: (name: string) => ({ name, logger, signal, report: () => undefined }),
    } as unknown as WebhooksContext;
    const session = { senderId: randomUUID(), endLeases: async () => undefined };
    const sender = new Sender(context, session as never, { isCurrent: true } as never);
    const runPromise = sender.run(signal);
    const createEndpoint = (_: unknown, n: number) =>
      ({ environment: "sandbox", applicationId: `a${n % 10}`, endpointId: `a${n % 10} e${n}` }) as const;
    sender.addDue(Array.from({ length: 100 }, createEndpoint));
    await eventually("a full buffer", () => claimedCount >= 2 * MAX_ATTEMPTS);
    const searchCountBefore = searchCount;
    await eventually("more searches", () => searchCount >= searchCountBefore + 2);
    expect(claimedCount).to.be.at.most(3 * MAX_ATTEMPTS);
    controller.abort();
    await runPromise;
  });
});
