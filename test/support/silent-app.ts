import { pino } from "pino";
import { createApp } from "../../shared/http/app.ts";

/** Creates an application that has no routes of its own, and by default no log. */
export const createSilentApp = (options: Partial<Parameters<typeof createApp>[0]> = {}) =>
  createApp({
    logger: pino({ level: "silent" }),
    retiredPaths: [],
    isProxyTrusted: false,
    checkReadiness: async () => ({}),
    ...options,
  });
