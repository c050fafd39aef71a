/** Process that sends the webhooks in the queue of graphile-worker. The parent process sends {@link WorkerOptions}. */
import { once } from "node:events";
import { Logger, run } from "graphile-worker";
import { createSignedPoster } from "./signed-posts.ts";

export interface WorkerOptions {
  databaseUrl: string;
  sinkUrl: string;
  /** Settings of graphile-worker. */
  settings: NonNullable<GraphileConfig.Preset["worker"]>;
}

declare global {
  namespace GraphileWorker {
    interface Tasks {
      /** Signs and posts a webhook. */
      send: { deliveryId: string; body: string };
    }
  }
}

// The default logger prints a line for each job, which would distort the measurement.
const logger = new Logger(() => (level, message) => {
  if (String(level) === "error") console.error(message);
});

process.once("disconnect", () => process.exit());
process.send?.("ready");
const [{ databaseUrl, sinkUrl, settings }] = (await once(process, "message")) as [WorkerOptions];
const poster = createSignedPoster(sinkUrl);
await run({
  preset: { worker: { connectionString: databaseUrl, logger, ...settings } },
  noHandleSignals: true,
  taskList: { send: ({ deliveryId, body }) => poster.post(deliveryId, body) },
});
