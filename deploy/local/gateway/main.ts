import { z } from "zod";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { runService } from "../../../shared/runtime/run-service.ts";
import { startGateway } from "./gateway-server.ts";

const urlsSchema = z.object({ COMMAND_URL: z.url(), QUERY_API_URL: z.url(), AUDIT_URL: z.url() });

await runService("gateway", async (env) => {
  const { HOST, PORT, LOG_LEVEL } = readConfig(["HOST", "PORT", "LOG_LEVEL"], env);
  const logger = createLogger("gateway", LOG_LEVEL);
  const { COMMAND_URL, QUERY_API_URL, AUDIT_URL } = urlsSchema.parse(env);
  const { url, close } = await startGateway({
    host: HOST,
    port: PORT,
    upstreamUrls: { command: COMMAND_URL, queryApi: QUERY_API_URL, audit: AUDIT_URL },
    log: (line) => logger.warn(line),
  });
  return { url, stop: close };
});
