/**
 * Makes one attempt in a separate process, because Node reads NODE_EXTRA_CA_CERTS only at its start. The variable
 * ATTEMPT holds the URL and the loopback port to which the attempt is redirected. Prints the result as JSON.
 */
import { randomUUID } from "node:crypto";
import { createConnections } from "../../../projection/webhooks/sending/connections.ts";
import { send } from "../../../projection/webhooks/sending/send.ts";

const { url, port } = JSON.parse(process.env.ATTEMPT ?? "") as { url: string; port: number };
const realConnections = createConnections();
const attemptResult = await send(url, {}, "{}", {
  connections: {
    ...realConnections,
    post(applicationId, destination, headers, useNewConnection) {
      const routedUrl = new URL(destination.url);
      routedUrl.port = String(port);
      return realConnections.post(applicationId, { url: routedUrl, address: "127.0.0.1" }, headers, useNewConnection);
    },
  },
  ...{ applicationId: randomUUID(), allowsLoopback: false, connectTimeoutMs: 10_000, timeoutMs: 10_000 },
  lookup: async () => ["93.184.216.34"],
  signal: new AbortController().signal,
});
realConnections.close();
process.stdout.write(JSON.stringify(attemptResult));
