import { readFileSync } from "node:fs";

/** Text of a setting, or the problem that prevents reading it. The text is undefined if the setting is not set. */
export type SettingText = { text: string | undefined } | { problem: string };

/** Returns the variable that names the file with a secret. */
export function getFileVariable(name: string): string {
  return `${name}_FILE`;
}

/**
 * Reads a secret from its variable or from the file that `<name>_FILE` names. A newline at the end of the file is
 * removed. A problem never contains the file's name, because a user may set `<name>_FILE` to the secret by mistake.
 */
export function readSecret(name: string, env: Record<string, string | undefined>): SettingText {
  const fileVariable = getFileVariable(name);
  const file = env[fileVariable];
  if (file === undefined) return { text: env[name] };
  if (env[name] !== undefined) return { problem: `${name} and ${fileVariable} are both set, but only one may be` };
  try {
    return { text: readFileSync(file, "utf8").replace(/\r?\n$/, "") };
  } catch (error) {
    return { problem: `${fileVariable} names a file that cannot be read (${(error as NodeJS.ErrnoException).code})` };
  }
}
