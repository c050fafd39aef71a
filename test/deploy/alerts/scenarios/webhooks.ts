/** Scenarios: webhooks are not sent, or receivers or the egress proxy refuse them. */
import { randomUUID } from "node:crypto";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { createAppender, requestAppointment } from "../../../projection/webhooks/world-events.ts";
import { startConnectProxy } from "../../../support/connect-proxy.ts";
import { eventually } from "../../../support/eventually.ts";
import { findFreePort } from "../../../support/free-ports.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { type ObservedStack, startObservedStack } from "../observed-stack.ts";
import { shorten } from "../rules.ts";
import { type ScenarioGroup, WINDOW_SECONDS } from "../scenario.ts";
import { requireStatus, requireText } from "./processes.ts";

const LOAD_PAUSE_MS = 1_000;

/** Number of pending webhooks when the process is killed. One endpoint receives fewer at the same time. */
const PENDING_COUNT = 40;

/** Number of events without an endpoint. They make the dispatcher lag. */
const BACKLOG_COUNT = 5_100;
const APPENDERS = 20;

/** Endpoint at a public address. Nothing is sent to the address, because the egress proxy is down. */
const PUBLIC_URL = "https://93.184.216.34:8443/in";

export const dispatcherGroup: ScenarioGroup = {
  alerts: ["WebhooksDelayed"],
  async start(prometheusProgram) {
    // No held request may time out before the kill, because WebhooksDelayed ignores failing endpoints.
    const observed = await startObservedStack(prometheusProgram, { WEBHOOK_TIMEOUT_MS: "30000" });
    const { components, prometheus, receiver, world, runClinic, stop } = observed;
    return {
      prometheus,
      scenarios: [
        {
          cause: `The only process of the role webhooks was killed during ${PENDING_COUNT} deliveries, and ${BACKLOG_COUNT} events followed.`,
          alerts: [{ alert: "WebhooksDelayed", delaySeconds: shorten(300) }],
          async create() {
            receiver.setDefaultReaction({ mode: "hold" });
            for (let count = 0; count < PENDING_COUNT; count += 1) await world.createAppointment(randomUUID());
            await eventually("a request", () => receiver.countHeldRequests() > 0);
            await components.dispatcher.kill();
            receiver.setDefaultReaction({});
            await appendEvents(observed, BACKLOG_COUNT);
          },
          async followRunbook() {
            await requireStatus({ runClinic }, /no process is running/);
            await components.dispatcher.start();
          },
        },
      ],
      stop,
    };
  },
};

export const receiverGroup: ScenarioGroup = {
  alerts: ["WebhookAttemptsFailing"],
  async start(prometheusProgram) {
    const { prometheus, receiver, endpoint, query, startLoad, runClinic, stop } =
      await startObservedStack(prometheusProgram);
    const stopLoad = startLoad(LOAD_PAUSE_MS);
    const since = new Date().toISOString();
    return {
      prometheus,
      scenarios: [
        {
          cause: "The partner's receiver responded with status 500.",
          alerts: [{ alert: "WebhookAttemptsFailing", delaySeconds: 60, clearSeconds: WINDOW_SECONDS }],
          create: async () => receiver.setDefaultReaction({ status: 500 }),
          async followRunbook() {
            const failures = await query(
              "SELECT DISTINCT d.endpoint_id FROM webhooks.attempt JOIN webhooks.delivery d USING (delivery_id) WHERE status_code = 500",
            );
            requireText(JSON.stringify(failures), new RegExp(`^\\[{"endpoint_id":"${endpoint.id}"}\\]$`));
            receiver.setDefaultReaction({}); // the partner repairs the receiver
            await runClinic("endpoint", "replay", "--endpoint", endpoint.id, "--since", since);
            await eventually("no failed deliveries", async () => {
              const [row] = await query(
                "SELECT count(*)::integer AS failed FROM webhooks.delivery WHERE status = 'failed'",
              );
              return row?.failed === 0;
            });
          },
        },
      ],
      stop: async () => {
        stopLoad();
        await stop();
      },
    };
  },
};

export const proxyGroup: ScenarioGroup = {
  alerts: ["WebhookEgressProxyFailing"],
  async start(prometheusProgram) {
    const port = await findFreePort();
    const settings = { WEBHOOK_EGRESS_PROXY_URL: `http://127.0.0.1:${port}` };
    const { prometheus, world, receiver, startLoad, stop } = await startObservedStack(prometheusProgram, settings);
    const body = { url: PUBLIC_URL, events: ["appointment.created"] };
    const { status } = await world.requestPartner("POST", "/webhook-endpoints", { body });
    if (status !== 201) throw new Error(`The endpoint was not registered: ${status}`);
    let proxy: Awaited<ReturnType<typeof startConnectProxy>> | undefined;
    let stopLoad = () => {};
    return {
      prometheus,
      scenarios: [
        {
          cause: "Webhooks were sent while the egress proxy was down.",
          alerts: [{ alert: "WebhookEgressProxyFailing", delaySeconds: 60, clearSeconds: WINDOW_SECONDS }],
          create: async () => {
            stopLoad = startLoad(LOAD_PAUSE_MS);
          },
          async followRunbook() {
            // The tunnels of this proxy lead to the receiver on this machine.
            proxy = await startConnectProxy(receiver.port, { port });
          },
        },
      ],
      stop: async () => {
        stopLoad();
        await stop();
        await proxy?.close();
      },
    };
  },
};

/** Appends appointments of a clinic without endpoints. */
async function appendEvents({ servers }: ObservedStack, count: number): Promise<void> {
  const client = connectEventStore(servers.eventstoreUrl, "test");
  const append = createAppender(createPlainLog(client));
  const clinicId = randomUUID();
  const appendSome = async () => {
    for (let appended = 0; appended < count / APPENDERS; appended += 1)
      await eventually("an append", () => requestAppointment(append, clinicId, {}).catch(() => undefined));
  };
  await Promise.all(Array.from({ length: APPENDERS }, appendSome));
  await client.dispose();
}
