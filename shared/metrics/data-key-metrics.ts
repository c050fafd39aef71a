import { Counter, type Registry } from "prom-client";
import type { ReportMissingKeys } from "../personal-data/create-data-keys.ts";
import type { Logger } from "../runtime/logger.ts";

/** Registers the metric of missing data keys, and returns the function that counts and logs them. */
export function createMissingKeyReporter(registry: Registry, logger: Logger): ReportMissingKeys {
  const missingKeys = new Counter({
    name: "data_keys_missing_total",
    help: "Data keys that events name, but that the database does not contain. Counted at each search.",
    registers: [registry],
  });
  return (ids) => {
    missingKeys.inc(ids.length);
    logger.warn(
      { count: ids.length, firstId: ids[0] },
      "data keys are missing in the database, so their personal data is shown as erased; restore the data keys",
    );
  };
}
