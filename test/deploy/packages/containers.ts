import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadAll, YAML11_SCHEMA } from "js-yaml";
import { startAuditService } from "../../../command/audit/start.ts";
import { startCommandService } from "../../../command/start.ts";
import { startProjection } from "../../../projection/start.ts";
import { startQueryApi } from "../../../query-api/start.ts";
import { isSecret, readConfig, type Settings, settings } from "../../../shared/runtime/config.ts";
import { listReadSettings } from "../../support/setting-names.ts";

const deployFolder = fileURLToPath(new URL("../../../deploy", import.meta.url));

/** Folder of the secrets inside containers. */
export const SECRETS_FOLDER = "/run/secrets/";

/** A container of the product's image. */
export interface Container {
  /** Program and its arguments. */
  command: string[];
  env: Record<string, string>;
}

/** Start function of each service, by entry file. */
const services: Record<string, (env: NodeJS.ProcessEnv) => Promise<unknown>> = {
  "dist/command/main.js": startCommandService,
  "dist/command/audit/main.js": startAuditService,
  "dist/projection/main.js": startProjection,
  "dist/query-api/main.js": startQueryApi,
};

/** Environment variables that Containerfile sets in the image. */
export const IMAGE_ENV = { HOST: "0.0.0.0", PORT: "8080" };

/** Reads the YAML documents of a file. @param path relative to the folder `deploy` */
export function readYaml(path: string): unknown[] {
  return loadAll(readFileSync(join(deployFolder, path), "utf8"), { schema: YAML11_SCHEMA });
}

/** Returns the documented memory need of a process, from docs/operations/sizing.md. MiB. */
export function readMemoryNeed(process: string): number {
  // The documented value of the projection service includes the role webhooks.
  const need = readMemoryNeeds().get(process === "webhooks" ? "projection" : process);
  if (need === undefined) throw new Error(`docs/operations/sizing.md does not contain the memory of ${process}`);
  return need;
}

function readMemoryNeeds(): Map<string, number> {
  const text = readFileSync(join(deployFolder, "../docs/operations/sizing.md"), "utf8");
  const rows = text.matchAll(/^\| `([^`]+)`[^|]*\|[^|]*\|(.*MiB.*)\|$/gm);
  const sum = (cell: string) => [...cell.matchAll(/(\d+) MiB/g)].reduce((total, [, count]) => total + Number(count), 0);
  return new Map([...rows].map(([, name = "", peak = ""]) => [name, sum(peak)]));
}

/** Converts a memory limit such as `512m`, `1g` or `768Mi` to MiB. */
export function toMebibytes(limit: string): number {
  const [, count, unit = ""] = /^(\d+)([mMgG])i?$/.exec(limit) ?? [];
  return Number(count) * (unit.toLowerCase() === "g" ? 1024 : 1);
}

/** Time that a process may need to stop: DRAIN_DELAY_MS plus 8 s, see docs/operations/operate.md. Seconds. */
export const STOP_SECONDS = 13;

/**
 * Lists problems in a container's environment variables: variables that its program does not read, and missing or
 * invalid settings.
 *
 * @param secretsFolder local folder in place of SECRETS_FOLDER
 */
export async function findProblems({ command, env }: Container, secretsFolder: string): Promise<string[]> {
  const names = await listSettings(command, env);
  const allowedVariables = new Set<string>(names.flatMap((name) => (isSecret(name) ? [name, `${name}_FILE`] : [name])));
  const unknownVariables = Object.keys(env).filter((name) => !allowedVariables.has(name));
  const localEnv = Object.fromEntries(
    Object.entries({ ...IMAGE_ENV, ...env }).map(([name, value]) => [
      name,
      value.replace(SECRETS_FOLDER, secretsFolder),
    ]),
  );
  const requiredNames = command[0] === "clinic" ? names.filter((name) => isSet(name, env)) : names;
  return [...unknownVariables.map((name) => `${name} is not read`), ...describeConfigError(requiredNames, localEnv)];
}

/** Returns the file names of the secrets that a container uses, directly or in connection strings. */
export function listUsedSecrets(env: Container["env"], secretsFolder: string): string[] {
  const listNames = (text: string) => [...text.matchAll(/\/run\/secrets\/([\w.-]+)/g)].map(([, name = ""]) => name);
  const namedFiles = Object.values(env).filter((value) => value.startsWith(SECRETS_FOLDER) && !value.endsWith(".crt"));
  const contents = namedFiles.map((file) => readFileSync(file.replace(SECRETS_FOLDER, secretsFolder), "utf8"));
  return [...new Set([...Object.values(env), ...contents].flatMap(listNames))];
}

/** Returns the settings that a program reads, which can depend on its roles. For `clinic`, returns all settings. */
async function listSettings(command: readonly string[], { ROLES }: Container["env"]): Promise<(keyof Settings)[]> {
  const [program, entry = ""] = command;
  if (program === "clinic") return Object.keys(settings) as (keyof Settings)[];
  const start = services[entry];
  if (program !== "node" || start === undefined) throw new Error(`unknown program: ${command.join(" ")}`);
  return listReadSettings(start, ROLES === undefined ? {} : { ROLES });
}

const isSet = (name: string, env: Container["env"]) => Object.hasOwn(env, name) || Object.hasOwn(env, `${name}_FILE`);

function describeConfigError(names: readonly (keyof Settings)[], env: Record<string, string>): string[] {
  try {
    readConfig(names, env);
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}
