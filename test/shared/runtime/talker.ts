// The tests of the log run this file as a separate process: node --import tsx <this file>
import { createLogger } from "../../../shared/runtime/logger.ts";
import { runService } from "../../../shared/runtime/run-service.ts";

/** Number of lines that are logged at each interval. */
const LINES_PER_INTERVAL = 200;
const TEXT = "x".repeat(500);
const INTERVAL_MS = 20;

await runService("talker", async () => {
  const logger = createLogger("talker", "info");
  let number = 0;
  const timer = setInterval(() => {
    for (let line = 0; line < LINES_PER_INTERVAL; line += 1) logger.info({ number: number++, text: TEXT }, "talks");
    process.stderr.write(".");
  }, INTERVAL_MS);
  return { url: "", stop: async () => clearInterval(timer) };
});
