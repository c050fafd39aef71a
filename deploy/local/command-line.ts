/**
 * Runs a command-line program against the running local stack: `command-line.ts <entry> [arguments]`.
 *
 * The npm scripts `clinic`, `audit` and `projection` use it to set environment variables from the stack file. The
 * programs read their settings only from the environment.
 */
import { pathToFileURL } from "node:url";
import { loadSecretFiles } from "../../shared/runtime/config.ts";
import { getLocalPaths, getLocalRoot, resolveEntry } from "./setup/project.ts";
import { runEntry, SetupError } from "./setup/setup-error.ts";
import { buildCommandLineEnvironment, readStackFile, type StackFile } from "./stack/stack-file.ts";

const NO_STACK_TEXT = "no local stack is running; start it with npm start, or set EVENTSTORE_URL and DATABASE_URL";

await runEntry(async () => {
  const [nodePath = process.execPath, , entryFile, ...args] = process.argv;
  if (entryFile === undefined) throw new SetupError("Usage: command-line.ts <entry.ts> [arguments]");
  const stack = readRunningStack(getLocalPaths(getLocalRoot(process.env)).stack);
  const env = loadSecretFiles(process.env);
  if (stack) Object.assign(process.env, buildCommandLineEnvironment(env, stack));
  else if (!env.EVENTSTORE_URL) process.env.CLINIC_SETTINGS_ADVICE = NO_STACK_TEXT;
  const file = resolveEntry(entryFile);
  process.argv = [nodePath, file, ...args];
  await import(pathToFileURL(file).href);
});

/**
 * Reads the stack file. If the file is invalid, prints the error and continues, because some programs do not need the
 * stack.
 */
function readRunningStack(file: string): StackFile | undefined {
  try {
    return readStackFile(file);
  } catch (error) {
    console.error((error as Error).message);
    return undefined;
  }
}
