import type { Readiness } from "../../shared/http/health.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { READ_TIMEOUT_MS, type ReadRow } from "./read.ts";

const statement = { name: "readiness", text: "SELECT position FROM read_model.checkpoint" };

/** Reports ready if Postgres answers and read models exist. Only the log file contains the cause of a failure. */
export function readiness(read: ReadRow, logger: Logger): Readiness {
  return async () => {
    try {
      await read(statement, [], performance.now() + READ_TIMEOUT_MS);
      return { postgres: null };
    } catch (error) {
      logger.warn({ error }, "Not ready: the read models cannot be read.");
      return { postgres: "unavailable" };
    }
  };
}
