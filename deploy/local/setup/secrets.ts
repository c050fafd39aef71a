import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { exportJWK, generateKeyPair } from "jose";
import { z } from "zod";
import { replaceFile } from "./saved-file.ts";
import { SetupError } from "./setup-error.ts";

/** Database users with a password: the superuser of the embedded server, and a user for each service. */
const databaseUserSchema = z.enum(["superuser", "projection", "command", "query", "audit"]);

const secretsSchema = z.object({
  /** Password of each database user. */
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

/** Secrets of a local stack. The first start of the stack creates them. */
export type LocalSecrets = z.infer<typeof secretsSchema>;

/** Secrets file of an earlier version, which may lack some of the current secrets. */
const storedSecretsSchema = z.looseObject({ postgres: z.looseObject({}) });

/**
 * Reads the secrets from a file that only its owner can read. Creates the file if it is missing. If an earlier version
 * wrote the file, adds the missing secrets.
 *
 * @throws {SetupError} if the file is damaged
 */
export async function loadSecrets(file: string): Promise<LocalSecrets> {
  const storedSecrets = fs.existsSync(file) ? readStoredSecrets(file) : undefined;
  const parseResult = secretsSchema.safeParse(storedSecrets);
  if (parseResult.success) return parseResult.data;
  const newSecrets = await generateSecrets();
  const secrets = { ...newSecrets, ...storedSecrets, postgres: { ...newSecrets.postgres, ...storedSecrets?.postgres } };
  const { success, data } = secretsSchema.safeParse(secrets);
  if (!success) throw createDamagedFileError(file);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  replaceFile(file, `${JSON.stringify(data, null, 2)}\n`);
  return data;
}

function readStoredSecrets(file: string): z.infer<typeof storedSecretsSchema> {
  try {
    return storedSecretsSchema.parse(JSON.parse(fs.readFileSync(file, "utf8")));
  } catch {
    throw createDamagedFileError(file);
  }
}

function createDamagedFileError(file: string): SetupError {
  return new SetupError(
    `${file} is damaged. The data of the stack cannot be opened without it. Run npm run reset to delete the data and start again.`,
  );
}

async function generateSecrets(): Promise<LocalSecrets> {
  const passwordEntries = databaseUserSchema.options.map((user) => [user, randomBytes(24).toString("base64url")]);
  return {
    postgres: Object.fromEntries(passwordEntries),
    portalJwtSecret: randomBytes(48).toString("base64url"),
    tokenSigningKeys: JSON.stringify({ keys: [await generateSigningKey("local")] }),
    auditSigningKeys: JSON.stringify({ keys: [await generateSigningKey("audit")] }),
    personalDataKeys: generateEncryptionKeys("personal-data"),
    webhookSecretKeys: generateEncryptionKeys("webhook"),
    webhookSigningKeys: JSON.stringify({ keys: [await generateSigningKey("webhook")] }),
  };
}

/** Creates a set of encryption keys with one key, as JSON text. */
function generateEncryptionKeys(name: string): string {
  const id = `${name}-${randomBytes(4).toString("hex")}`;
  return JSON.stringify({ current: id, keys: { [id]: randomBytes(32).toString("base64") } });
}

/** Creates an Ed25519 key as a private JWK. */
async function generateSigningKey(name: string) {
  const { privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true });
  const kid = `${name}-${randomBytes(4).toString("hex")}`;
  return { ...(await exportJWK(privateKey)), kid, alg: "EdDSA", use: "sig" };
}
