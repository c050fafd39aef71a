import { expect } from "chai";
import { ConfigError, isSecret, type Settings, settings } from "../../shared/runtime/config.ts";

/**
 * Returns the names of the settings that a service reads when it starts.
 *
 * @param start starts the service
 */
export async function listReadSettings(
  start: (env: NodeJS.ProcessEnv) => Promise<unknown>,
): Promise<(keyof Settings)[]> {
  const readNames = new Set<string>();
  const emptyEnv = new Proxy({} as NodeJS.ProcessEnv, {
    get: (_, name) => void (typeof name === "string" && readNames.add(name)),
  });
  const error = await start(emptyEnv).catch((reason: unknown) => reason);
  expect(error).to.be.instanceOf(ConfigError);
  const names = (Object.keys(settings) as (keyof Settings)[]).filter((name) => readNames.has(name));
  for (const name of names) {
    readNames.delete(name);
    if (isSecret(name)) readNames.delete(`${name}_FILE`);
  }
  expect([...readNames], "variables that are no settings").to.deep.equal([]);
  return names;
}
