import { ConfigError, loadSecretFiles } from "../../../shared/runtime/config.ts";
import { SetupError } from "./setup-error.ts";

/**
 * Returns the user's environment with the secrets that `<name>_FILE` variables provide. Other code of the local stack
 * therefore only needs to know the variables of the secrets themselves.
 *
 * @throws {SetupError} one line that names the setting
 */
export function loadSecrets(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  try {
    return loadSecretFiles(env);
  } catch (error) {
    throw error instanceof ConfigError ? new SetupError(error.message) : error;
  }
}
