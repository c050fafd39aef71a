/**
 * Makes attempts through egress proxies in a separate process, because Node reads NODE_EXTRA_CA_CERTS only at its
 * start. The variable ATTEMPTS holds the URLs of the attempts and their proxies. Prints the results as JSON.
 */
import { createConnections } from "../../../projection/webhooks/sending/connections.ts";
import { EgressProxy } from "../../../projection/webhooks/sending/egress-proxy.ts";
import { type SendResult, send } from "../../../projection/webhooks/sending/send.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";

const attempts = JSON.parse(process.env.ATTEMPTS ?? "") as { url: string; proxyUrl: string }[];
const limits = { connectTimeoutMs: 10_000, timeoutMs: 10_000 };
const logger = createLogger("attempts", "silent");
const results: (SendResult | undefined)[] = [];
for (const { url, proxyUrl } of attempts) {
  const connections = createConnections(new EgressProxy({ url: proxyUrl, ...limits, logger }));
  // If the first attempt succeeds, the second reuses its connection.
  for (let n = 0; n < 2; n += 1) {
    const sendResult = await send(url, {}, "{}", {
      ...{ connections, applicationId: "a", allowsLoopback: false, ...limits },
      lookup: async () => ["93.184.216.34"],
      signal: new AbortController().signal,
    });
    results.push(sendResult);
  }
  connections.close();
}
process.stdout.write(JSON.stringify(results));
