/**
 * Program that makes webhook attempts. A separate process, because Node reads NODE_EXTRA_CA_CERTS only at its start.
 * Reads the attempts from the variable ATTEMPTS (JSON, see `run-trusted-attempts.ts`) and prints the results as JSON.
 */

import { type Connections, createConnections } from "../../../projection/webhooks/send/connections.ts";
import { EgressProxy } from "../../../projection/webhooks/send/egress-proxy.ts";
import { type SendResult, send } from "../../../projection/webhooks/send/send.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import type { TrustedAttempt } from "./run-trusted-attempts.ts";

const limits = { connectTimeoutMs: 10_000, timeoutMs: 10_000 };
const logger = createLogger("attempts", "silent");
const results: (SendResult | undefined)[] = [];
for (const { url, ...route } of JSON.parse(process.env.ATTEMPTS ?? "") as TrustedAttempt[]) {
  const connections =
    "proxyUrl" in route
      ? createConnections(new EgressProxy({ url: route.proxyUrl, ...limits, logger }))
      : routeToLoopback(createConnections(), route.port);
  // If the first attempt succeeds, the second reuses its connection.
  for (let n = 0; n < 2; n += 1) {
    const sendResult = await send(url, {}, "{}", {
      connections,
      applicationId: "a",
      allowsLoopback: false,
      ...limits,
      lookup: async () => ["93.184.216.34"],
      signal: new AbortController().signal,
    });
    results.push(sendResult);
  }
  connections.close();
}
process.stdout.write(JSON.stringify(results));

/** Makes all requests connect to a port on loopback. */
function routeToLoopback(connections: Connections, port: number): Connections {
  return {
    ...connections,
    post(applicationId, destination, headers, useNewConnection) {
      const url = new URL(destination.url);
      url.port = String(port);
      return connections.post(applicationId, { url, addresses: ["127.0.0.2", "127.0.0.1"] }, headers, useNewConnection);
    },
  };
}
