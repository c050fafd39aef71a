import { connectNats } from "../../../projection/relay/nats-session.ts";
import { checkNatsSettings, NATS_SETTING_NAMES } from "../../../projection/relay/nats-settings.ts";
import { connectEventStore, requireEventStore } from "../../../shared/eventstore/connect.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { SetupError } from "../setup/setup-error.ts";

const URL_SETTINGS = ["EVENTSTORE_URL", "DATABASE_URL", "NATS_URL"] as const;

/** URLs of external servers. Each external server replaces an embedded server. */
export type ExternalServers = { [Setting in (typeof URL_SETTINGS)[number]]?: string | undefined };

const CONNECT_TIMEOUT_MS = 15_000;

/**
 * Checks the syntax of the URLs.
 *
 * @throws {ConfigError} one line that names the invalid setting
 */
export function requireValidUrls(externalUrls: ExternalServers): void {
  readConfig(
    URL_SETTINGS.filter((name) => externalUrls[name]),
    { ...externalUrls },
  );
}

/**
 * Checks that an external event log and an external NATS server respond. Postgres is checked later, when the database
 * roles are created.
 *
 * @param env environment with the URLs and the other settings of the connections
 * @throws {SetupError} one line that names the setting
 */
export async function requireReachable(env: NodeJS.ProcessEnv): Promise<void> {
  const { EVENTSTORE_URL, NATS_URL } = env;
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
      const nats = checkNatsSettings(readConfig(NATS_SETTING_NAMES, env));
      const connection = await connectNats(nats, "start", CONNECT_TIMEOUT_MS);
      await connection.close();
    } catch (error) {
      throw new SetupError((error as Error).message);
    }
  }
}
