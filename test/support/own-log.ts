import path from "node:path";
import { startLogServer } from "../../deploy/local/eventstore/server.ts";
import { autoStop } from "./resources.ts";
import { makeTestRoot } from "./stack.ts";

/** An event log without the events of other tests. */
export interface OwnLog {
  eventstoreUrl: string;
  stop(): Promise<void>;
}

/**
 * Starts an event log in this process, for roles that start at the beginning of the log. In the shared log, they would
 * process the events of all earlier tests. If EVENTSTORE_URL is set, returns that log, which can contain other events.
 */
export async function startOwnLog(): Promise<OwnLog> {
  const { EVENTSTORE_URL } = process.env;
  if (EVENTSTORE_URL) return { eventstoreUrl: EVENTSTORE_URL, stop: async () => undefined };
  return startSeparateLog();
}

/**
 * Starts an event log in this process, by default a new one. For events that no projector can process, because they
 * would affect other tests in the shared log.
 */
export async function startSeparateLog(options: Partial<Parameters<typeof startLogServer>[0]> = {}) {
  const dir = options.dir ?? path.join(makeTestRoot(), "log");
  const server = await autoStop(startLogServer({ dir, host: "127.0.0.1", port: 0, shouldSync: false, ...options }));
  return { ...server, dir, eventstoreUrl: `esdb://127.0.0.1:${server.port}?tls=false` };
}
