import { connect } from "nats";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { requireEventStore } from "../../../shared/eventstore/reach.ts";
import { ConfigError, readConfig } from "../../../shared/runtime/config.ts";
import { SetupError } from "../setup/setup-error.ts";

/** URLs of servers that run elsewhere. Each replaces an embedded server. */
export interface ExternalServers {
  EVENTSTORE_URL?: string | undefined;
  DATABASE_URL?: string | undefined;
  NATS_URL?: string | undefined;
}

const URL_SETTINGS = ["EVENTSTORE_URL", "DATABASE_URL", "NATS_URL"] as const;

/** Time limit for an external server to answer. Milliseconds. */
const REACH_TIMEOUT_MS = 15_000;

/**
 * Checks the URLs before anything is started.
 *
 * @throws {SetupError} one line that names the invalid setting
 */
export function requireValidUrls(external: ExternalServers): void {
  try {
    readConfig(
      URL_SETTINGS.filter((name) => external[name]),
      { ...external },
    );
  } catch (error) {
    throw error instanceof ConfigError ? new SetupError(error.message) : error;
  }
}

/**
 * Checks that an external log and an external NATS answer. Postgres is checked when its roles are created.
 *
 * @throws {SetupError} one line that names the setting
 */
export async function requireReachable({ EVENTSTORE_URL, NATS_URL }: ExternalServers): Promise<void> {
  if (EVENTSTORE_URL) {
    const client = connectEventStore(EVENTSTORE_URL, "start");
    try {
      await requireEventStore(client, EVENTSTORE_URL);
    } catch (error) {
      throw new SetupError((error as Error).message);
    } finally {
      await client.dispose();
    }
  }
  if (NATS_URL) {
    try {
      const connection = await connect({ servers: NATS_URL, timeout: REACH_TIMEOUT_MS, reconnect: false });
      await connection.close();
    } catch (error) {
      const { host } = new URL(NATS_URL);
      throw new SetupError(`NATS_URL: the server at ${host} does not answer (${(error as Error).message}).`);
    }
  }
}
