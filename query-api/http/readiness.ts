import type { Readiness } from "../../shared/http/health.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { READ_TIMEOUT_MS, type ReadRow } from "./read.ts";

const statement = { name: "readiness", text: "SELECT position FROM read_model.checkpoint" };

/** Ready means that Postgres answers and that there are read models to answer from. Why not is for the log alone. */
export function readiness(read: ReadRow, logger: Logger): Readiness {
  return async () => {
    try {
      await read(statement, [], performance.now() + READ_TIMEOUT_MS);
      return { postgres: null };
    } catch (error) {
      logger.warn({ error }, "not ready");
      return { postgres: "unavailable" };
    }
  };
}
