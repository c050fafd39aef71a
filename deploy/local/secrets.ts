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
  }),
  portalJwtSecret: z.string(),
  /** Private JWK Set, as JSON text. */
  tokenSigningKeys: z.string(),
  /** {current, keys} as JSON text. */
  webhookSecretKeys: z.string(),
});

/** What one local stack keeps secret, made once. */
export type LocalSecrets = z.infer<typeof schema>;

/**
 * The secrets in the given file, made on first use; only its owner may read it.
 *
 * @throws {SetupError} when the file is there but is not what was written
 */
export async function loadSecrets(file: string): Promise<LocalSecrets> {
  if (fs.existsSync(file)) {
    const text = fs.readFileSync(file, "utf8");
    try {
      return schema.parse(JSON.parse(text));
    } catch {
      throw new SetupError(
        `${file} is damaged; the data beside it cannot be opened without it: run npm run reset`,
      );
    }
  }
  const secrets = await generate();
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(`${file}.new`, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
  fs.renameSync(`${file}.new`, file);
  return secrets;
}

async function generate(): Promise<LocalSecrets> {
  const password = () => randomBytes(24).toString("base64url");
  const { privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true });
  const kid = `local-${randomBytes(4).toString("hex")}`;
  const jwk = { ...(await exportJWK(privateKey)), kid, alg: "EdDSA", use: "sig" };
  return {
    postgres: { superuser: password(), projection: password(), command: password(), query: password() },
    portalJwtSecret: randomBytes(48).toString("base64url"),
    tokenSigningKeys: JSON.stringify({ keys: [jwk] }),
    webhookSecretKeys: JSON.stringify({ current: kid, keys: { [kid]: randomBytes(32).toString("base64") } }),
  };
}
