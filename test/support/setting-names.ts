import { expect } from "chai";
import { ConfigError, isSecret, type Settings, settings } from "../../shared/runtime/config.ts";

/**
 * Returns the names of the settings that a service reads when it starts.
 *
 * @param start starts the service
 * @param env settings on which the names of other settings depend
 */
export async function listReadSettings(
  start: (env: NodeJS.ProcessEnv) => Promise<unknown>,
  env: NodeJS.ProcessEnv = {},
): Promise<(keyof Settings)[]> {
  const readNames = new Set<string>();
  const recordingEnv = new Proxy(env, {
    get: (_, name) => {
      if (typeof name !== "string") return undefined;
      readNames.add(name);
      return env[name];
    },
  });
  const error = await start(recordingEnv).catch((reason: unknown) => reason);
  expect(error).to.be.instanceOf(ConfigError);
  const names = (Object.keys(settings) as (keyof Settings)[]).filter((name) => readNames.has(name));
  for (const name of names) {
    readNames.delete(name);
    if (isSecret(name)) readNames.delete(`${name}_FILE`);
  }
  expect([...readNames], "variables that are no settings").to.deep.equal([]);
  return names;
}
