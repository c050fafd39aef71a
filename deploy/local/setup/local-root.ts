import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { z } from "zod";
import { generateKeys } from "../../../shared/auth/generate-keys.ts";
import { tryLock } from "./processes.mjs";
import { getLocalPaths, getRelocatedFolder, type LocalPaths } from "./project.ts";
import { SetupError } from "./setup-error.ts";

/**
 * Version of the event log, database and secrets in the folder. Increase it if this code can no longer read older data.
 */
const DATA_VERSION = "1";

/** Folder of a stack. This process holds the lock of the folder. */
export interface LocalRoot {
  paths: LocalPaths;
  secrets: LocalSecrets;
  release(): void;
}

/** The superuser of the embedded server, and a user for each service. */
const databaseUserSchema = z.enum(["superuser", "projection", "command", "query", "audit"]);

const secretsSchema = z.object({
  postgres: z.record(databaseUserSchema, z.string()),
  portalJwtSecret: z.string(),
  /** Private JWK Set that signs access tokens, as JSON text. */
  tokenSigningKeys: z.string(),
  /** Private JWK Set that signs audit exports, as JSON text. */
  auditSigningKeys: z.string(),
  /** Master keys of personal data, as JSON text: `{current, keys}`. */
  personalDataKeys: z.string(),
  /** Keys for encrypting webhook secrets, as JSON text: `{current, keys}`. */
  webhookSecretKeys: z.string(),
  /** Private JWK Set for asymmetric webhook signatures, as JSON text. */
  webhookSigningKeys: z.string(),
});

/** Created by the first start of the stack, and then kept in the stack's folder. */
export type LocalSecrets = z.infer<typeof secretsSchema>;

/**
 * Opens the folder of a stack: locks it, checks the version of its data, and reads or creates the secrets. Each start
 * begins new log files and moves the previous ones to `logs.former`.
 * @throws {SetupError} if a live process holds the lock, or this code cannot read the folder's data
 */
export async function openLocalRoot(root: string): Promise<LocalRoot> {
  const paths = getLocalPaths(path.resolve(root));
  createRootFolder(paths);
  const { release, holder } = tryLock(paths.lock);
  if (holder) throw new SetupError(`The stack in ${paths.root} is already running as process ${holder.pid}.`);
  try {
    fs.rmSync(paths.stack, { force: true }); // the file describes a stack that was killed
    fs.rmSync(`${paths.logs}.former`, { recursive: true, force: true });
    if (fs.existsSync(paths.logs)) fs.renameSync(paths.logs, `${paths.logs}.former`);
    fs.mkdirSync(paths.logs);
    return { paths, secrets: await loadSecrets(paths.secrets), release };
  } catch (error) {
    release();
    throw error;
  }
}

/** Deletes a stack's folder and its files in /var/lib. The caller must ensure that the stack is not running. */
export function removeLocalRoot(root: string): void {
  const rootFolder = path.resolve(root);
  fs.rmSync(getRelocatedFolder(rootFolder), { recursive: true, force: true });
  fs.rmSync(rootFolder, { recursive: true, force: true });
}

/** Replaces the content in one step. Only the owner can read the file. */
export function replaceFile(file: string, content: string): void {
  fs.writeFileSync(`${file}.new`, content, { mode: 0o600 });
  fs.renameSync(`${file}.new`, file);
}

/** Creates the folder if it is missing. Refuses a folder with data of another version or with other files. */
function createRootFolder({ root, version, secrets }: LocalPaths): void {
  try {
    fs.mkdirSync(root, { recursive: true });
    // The locks of the bootstrap can exist before the stack's first start.
    const isNew = fs.readdirSync(root).every((name) => name.endsWith("lock") || name === "version.new");
    if (isNew) replaceFile(version, DATA_VERSION);
  } catch (error) {
    throw new SetupError(`Cannot write to ${root}: ${(error as Error).message}`);
  }
  if (fs.existsSync(version) && fs.readFileSync(version, "utf8") === DATA_VERSION) return;
  if (fs.existsSync(version) || fs.existsSync(secrets))
    throw new SetupError(`${root} contains data of another version. Run npm run reset to delete it, then start again.`);
  throw new SetupError(
    `${root} contains other files. Choose a folder that only the stack uses, because npm run reset deletes the whole folder.`,
  );
}

async function loadSecrets(file: string): Promise<LocalSecrets> {
  if (!fs.existsSync(file)) replaceFile(file, `${JSON.stringify(await generateSecrets(), null, 2)}\n`);
  try {
    return secretsSchema.parse(JSON.parse(fs.readFileSync(file, "utf8")));
  } catch {
    throw new SetupError(
      `${file} is damaged. The data of the stack cannot be opened without it. Run npm run reset to delete the data and start again.`,
    );
  }
}

async function generateSecrets(): Promise<LocalSecrets> {
  const passwordEntries = databaseUserSchema.options.map((user) => [user, randomBytes(24).toString("base64url")]);
  return {
    postgres: Object.fromEntries(passwordEntries),
    portalJwtSecret: randomBytes(48).toString("base64url"),
    tokenSigningKeys: await generateKeys("TOKEN_SIGNING_KEYS"),
    auditSigningKeys: await generateKeys("AUDIT_SIGNING_KEYS"),
    personalDataKeys: await generateKeys("PERSONAL_DATA_KEYS"),
    webhookSecretKeys: await generateKeys("WEBHOOK_SECRET_KEYS"),
    webhookSigningKeys: await generateKeys("WEBHOOK_SIGNING_KEYS"),
  };
}
