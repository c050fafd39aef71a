// Run as a process of its own by the tests of the log: node --import tsx <this file>
import { createLogger } from "../../../shared/runtime/logger.ts";
import { runService } from "../../../shared/runtime/run-service.ts";

/** Lines at each turn, and their length. */
const LINES = 200;
const TEXT = "x".repeat(500);
const EVERY_MS = 20;

await runService("talker", async () => {
  const logger = createLogger("talker", "info");
  let number = 0;
  const talk = setInterval(() => {
    for (let line = 0; line < LINES; line += 1) logger.info({ number: number++, text: TEXT }, "talks");
    process.stderr.write(".");
  }, EVERY_MS);
  return { url: "", stop: async () => clearInterval(talk) };
});
