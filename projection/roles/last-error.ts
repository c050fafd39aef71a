import { safeMessage } from "../../shared/runtime/logger.ts";
import type { LastError } from "./role.ts";

/** An error that keeps a role from working now, as the role's status tells of it. */
export function lastErrorNow(error: unknown): LastError {
  return { message: error instanceof Error ? safeMessage(error) : String(error), at: Date.now() };
}
