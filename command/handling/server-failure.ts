import pg from "pg";
import { isAccessDenied } from "../../shared/eventstore/connect.ts";
import { LogUnavailableError } from "../../shared/eventstore/log.ts";
import { KeyStoreUnavailableError } from "../../shared/personal-data/data-keys.ts";
import { isPostgresUnavailable, isValueRefused } from "../../shared/postgres/unavailable.ts";
import { ConfigError } from "../../shared/runtime/config.ts";

/**
 * Returns true if an error would also occur for other objects: a server is unavailable, or a setting or a right is wrong.
 */
export function isServerFailure(error: unknown): boolean {
  return (
    error instanceof LogUnavailableError ||
    error instanceof KeyStoreUnavailableError ||
    error instanceof ConfigError ||
    isAccessDenied(error) ||
    isPostgresUnavailable(error) ||
    (error instanceof pg.DatabaseError && !isValueRefused(error))
  );
}
