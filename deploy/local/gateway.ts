import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { z } from "zod";
import { readConfig } from "../../shared/runtime/config.ts";
import { runService } from "../../shared/runtime/run-service.ts";
import { createGateway } from "./gateway-server.ts";

const upstreams = z.object({ COMMAND_URL: z.url(), QUERY_API_URL: z.url() });

await runService("gateway", async (env) => {
  const { HOST, PORT } = readConfig(["HOST", "PORT"], env);
  const { COMMAND_URL, QUERY_API_URL } = upstreams.parse(env);
  const server = createGateway({
    upstreams: { command: COMMAND_URL, queryApi: QUERY_API_URL },
    log: (line) => console.error(`gateway: ${line}`),
  });
  server.listen(PORT, HOST);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${HOST}:${port}`,
    stop: async () => {
      server.close();
      server.closeIdleConnections();
      await once(server, "close");
    },
  };
});
