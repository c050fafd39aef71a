/** Scenario: a partner moves one appointment of its sandbox continuously. */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { type ObservedStack, startObservedStack } from "../observed-stack.ts";
import { type ScenarioGroup, WINDOW_SECONDS } from "../scenario.ts";

/** Half of the maximum number of events in the stream. */
const EVENT_COUNT = 250;

/** Pause between two moves, which keeps them below the rate limit. Milliseconds. */
const PAUSE_MS = 1_000;

export const longStreamGroup: ScenarioGroup = {
  alerts: ["StreamNearLimit"],
  async start(prometheusProgram) {
    const observed = await startObservedStack(prometheusProgram);
    let isOver = false;
    return {
      prometheus: observed.prometheus,
      scenarios: [
        {
          cause: `An appointment with ${EVENT_COUNT} events was moved each second.`,
          alerts: [{ alert: "StreamNearLimit", labels: { category: "appointment" }, clearSeconds: WINDOW_SECONDS }],
          async create() {
            const id = await createLongAppointment(observed);
            const move = async () => {
              for (let minute = 1; !isOver; minute += 1) {
                const scheduledAt = new Date(Date.UTC(2098, 1, 1, 0, minute)).toISOString();
                await observed.world.requestPartner("POST", `/appointments/${id}/reschedule`, {
                  body: { scheduledAt },
                });
                await delay(PAUSE_MS);
              }
            };
            void move();
          },
          async followRunbook() {
            isOver = true; // the partner stops
          },
        },
      ],
      stop: observed.stop,
    };
  },
};

async function createLongAppointment({ servers, world }: ObservedStack): Promise<string> {
  const { sandbox } = (await world.requestPartner("GET", "/sandbox")).body;
  const { body } = await world.requestPartner("POST", "/appointments", {
    headers: { "X-SERVICE-Clinic-ID": sandbox.clinicId, "Idempotency-Key": randomUUID() },
    body: { branchId: sandbox.branches[0].id, animalId: sandbox.animals[0].id, scheduledAt: "2099-01-01T08:00:00Z" },
  });
  const { id } = body.appointment;
  const client = connectEventStore(servers.eventstoreUrl, "test");
  const log = createPlainLog(client);
  const { revision, metadata } = (await log.readLast(`appointment-${id}`))!;
  const data = { appointmentId: id, assignmentId: randomUUID() };
  const event = { type: "ResourceReleased", data } as const;
  const events = Array.from({ length: EVENT_COUNT }, () => ({ id: randomUUID(), event, metadata }));
  await log.append(`appointment-${id}`, revision, events);
  await client.dispose();
  return id;
}
