import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { nkeys } from "nats";
import { type Config, ConfigError } from "../../shared/runtime/config.ts";
import { parseNatsUrl } from "../../shared/runtime/nats-url.ts";

export const NATS_SETTING_NAMES = [
  "NATS_URL",
  "NATS_CREDENTIALS",
  "NATS_NKEY_SEED",
  "NATS_CA_FILE",
  "NATS_CERT_FILE",
  "NATS_KEY_FILE",
  "NATS_STREAM_REPLICAS",
] as const;

type NatsConfig = Config<(typeof NATS_SETTING_NAMES)[number]>;

/** Connection settings. The files are read for each connection, so a renewed certificate needs no restart. */
export type NatsSettings = Config<"NATS_URL"> & Partial<NatsConfig>;

/**
 * Checks the settings of the connection to NATS together, including the content of the files.
 *
 * @throws {ConfigError} with one line that names the settings
 */
export function validateNatsSettings(config: NatsConfig): NatsSettings {
  requireOneLogin(config);
  if (config.NATS_NKEY_SEED !== undefined) requireSeed(config.NATS_NKEY_SEED);
  if ((config.NATS_CERT_FILE === undefined) !== (config.NATS_KEY_FILE === undefined))
    throw new ConfigError("settings: NATS_CERT_FILE and NATS_KEY_FILE must be set together");
  const parseCertificate = (pem: Buffer) => new X509Certificate(pem);
  requirePem("NATS_CA_FILE", config.NATS_CA_FILE, "a certificate", parseCertificate);
  const certificate = requirePem("NATS_CERT_FILE", config.NATS_CERT_FILE, "a certificate", parseCertificate);
  const key = requirePem("NATS_KEY_FILE", config.NATS_KEY_FILE, "a private key", createPrivateKey);
  if (certificate && key && !certificate.checkPrivateKey(key))
    throw new ConfigError("settings: NATS_KEY_FILE must contain the key of the certificate in NATS_CERT_FILE");
  return config;
}

function requireOneLogin({ NATS_URL, NATS_CREDENTIALS, NATS_NKEY_SEED }: NatsConfig): void {
  const sources = [
    ...(parseNatsUrl(NATS_URL)?.some(({ login }) => login) ? ["credentials in NATS_URL"] : []),
    ...(NATS_CREDENTIALS === undefined ? [] : ["NATS_CREDENTIALS"]),
    ...(NATS_NKEY_SEED === undefined ? [] : ["NATS_NKEY_SEED"]),
  ];
  if (sources.length > 1) throw new ConfigError(`settings: only one of these may be set: ${sources.join(", ")}`);
}

function requireSeed(seed: string): void {
  try {
    nkeys.fromSeed(new TextEncoder().encode(seed));
  } catch {
    throw new ConfigError("settings: NATS_NKEY_SEED must be an nkey seed of a user, which begins with SU");
  }
}

function requirePem<Value>(
  name: string,
  file: string | undefined,
  content: string,
  parse: (pem: Buffer) => Value,
): Value | undefined {
  if (file === undefined) return undefined;
  let pem: Buffer;
  try {
    pem = readFileSync(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError(`settings: ${name} names a file that cannot be read (${code})`);
  }
  try {
    return parse(pem);
  } catch {
    throw new ConfigError(`settings: ${name} must name a PEM file with ${content}`);
  }
}
