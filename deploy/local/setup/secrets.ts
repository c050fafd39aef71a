import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { exportJWK, generateKeyPair } from "jose";
import { z } from "zod";
import { SetupError } from "./setup-error.ts";

const schema = z.object({
  /** Passwords of the database roles: the server's superuser and the services' login users. */
  postgres: z.object({
    superuser: z.string(),
    projection: z.string(),
    command: z.string(),
    query: z.string(),
    audit: z.string(),
  }),
  portalJwtSecret: z.string(),
  /** Private JWK Set, as JSON text. */
  tokenSigningKeys: z.string(),
  /** Private JWK Set that signs audit exports, as JSON text. */
  auditSigningKeys: z.string(),
  /** {current, keys} as JSON text. */
  webhookSecretKeys: z.string(),
});

/** Secrets of one local stack, created once. */
export type LocalSecrets = z.infer<typeof schema>;

/** Secrets as earlier versions wrote them: some may be missing. */
const formerSchema = z.looseObject({ postgres: z.looseObject({}) });

/**
 * Reads the secrets from a file that only its owner can read. Creates them on first use, and adds those that an earlier
 * version did not write.
 *
 * @throws {SetupError} if the file is damaged
 */
export async function loadSecrets(file: string): Promise<LocalSecrets> {
  const kept = fs.existsSync(file) ? read(file) : undefined;
  const complete = schema.safeParse(kept);
  if (complete.success) return complete.data;
  const fresh = await generateSecrets();
  const secrets = kept ? { ...fresh, ...kept, postgres: { ...fresh.postgres, ...kept.postgres } } : fresh;
  const checked = schema.safeParse(secrets);
  if (!checked.success) throw createDamagedFileError(file);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(`${file}.new`, `${JSON.stringify(checked.data, null, 2)}\n`, { mode: 0o600 });
  fs.renameSync(`${file}.new`, file);
  return checked.data;
}

function read(file: string): z.infer<typeof formerSchema> {
  try {
    return formerSchema.parse(JSON.parse(fs.readFileSync(file, "utf8")));
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
  const password = () => randomBytes(24).toString("base64url");
  const tokenKey = await generateSigningKey("local");
  return {
    postgres: {
      ...{ superuser: password(), projection: password() },
      ...{ command: password(), query: password(), audit: password() },
    },
    portalJwtSecret: randomBytes(48).toString("base64url"),
    tokenSigningKeys: JSON.stringify({ keys: [tokenKey] }),
    auditSigningKeys: JSON.stringify({ keys: [await generateSigningKey("audit")] }),
    webhookSecretKeys: JSON.stringify({
      current: tokenKey.kid,
      keys: { [tokenKey.kid]: randomBytes(32).toString("base64") },
    }),
  };
}

/** Creates an Ed25519 key as a private JWK. */
async function generateSigningKey(name: string) {
  const { privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true });
  const kid = `${name}-${randomBytes(4).toString("hex")}`;
  return { ...(await exportJWK(privateKey)), kid, alg: "EdDSA", use: "sig" };
}
