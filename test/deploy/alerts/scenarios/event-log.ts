/** Scenario: the event log is down. */
import { startObservedStack } from "../observed-stack.ts";
import { findBlackboxExporter } from "../prometheus.ts";
import { type ScenarioGroup, WINDOW_SECONDS } from "../scenario.ts";
import { requireNotReady, requireStatus } from "./processes.ts";

/** Pause between two requests, which keeps the load below the rate limit. Milliseconds. */
const PAUSE_MS = 1_000;

export const eventLogGroup: ScenarioGroup = {
  alerts: ["EventLogUnavailable", "ServiceNotReady", "RequestsFailing", "ProjectionWaiting", "ServerDown"],
  async start(prometheusProgram) {
    const { components, urls, prometheus, servers, startLoad, runClinic, stop } =
      await startObservedStack(prometheusProgram);
    const stopLoad = startLoad(PAUSE_MS);
    const address = new URL(servers.eventstoreUrl.replace("esdb:", "http:")).host;
    return {
      prometheus,
      scenarios: [
        {
          cause: "The event log was killed while a partner created appointments.",
          alerts: [
            {
              alert: "EventLogUnavailable",
              labels: { job: "command" },
              delaySeconds: 60,
              clearSeconds: WINDOW_SECONDS,
            },
            { alert: "ServiceNotReady", labels: { job: "command" } },
            { alert: "ServiceNotReady", labels: { job: "audit" } },
            { alert: "RequestsFailing", labels: { job: "command" }, delaySeconds: 60, clearSeconds: WINDOW_SECONDS },
            { alert: "ProjectionWaiting", labels: { role: "projectors" } },
            { alert: "ProjectionWaiting", labels: { role: "relay" } },
            ...(findBlackboxExporter() ? [{ alert: "ServerDown", labels: { instance: address } }] : []),
          ],
          create: () => components.eventstore.kill(),
          async followRunbook() {
            await requireNotReady(urls.command, /^503 .*"eventstore":"unavailable"/);
            await requireNotReady(urls.projection, /^503 .*"projectors":"waits/);
            await requireStatus({ runClinic }, /event log/);
            await components.eventstore.start();
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
