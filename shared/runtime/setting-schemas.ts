import { Resolver } from "node:dns";
import { z } from "zod";
import { ConnectionStringError, parseConnectionString } from "../postgres/connection-string.ts";

/** Creates the schema of a whole number in a range, written as text. */
export function wholeNumber(minimum: number, maximum: number) {
  return z
    .string()
    .regex(/^\d+$/, "must be a whole number")
    .transform(Number)
    .pipe(z.number().min(minimum).max(maximum));
}

/** Creates the schema of JSON text whose parsed value must match a schema. */
export function json<Schema extends z.ZodType>(schema: Schema) {
  return z
    .string()
    .transform((text, context) => {
      try {
        return JSON.parse(text) as unknown;
      } catch {
        context.addIssue({ code: "custom", message: "must be JSON" });
        return z.NEVER;
      }
    })
    .pipe(schema);
}

const DEPRECATED_PATH = /^(\/[^=]*)=(\d{4}-\d\d-\d\d)\/(\d{4}-\d\d-\d\d)$/;
const startOfDay = z.iso.date("must be a date like 2027-01-01").transform((day) => Date.parse(day) / 1_000);
const deprecatedPath = z
  .string()
  .regex(DEPRECATED_PATH, "must be like /path=2027-01-01/2028-01-01")
  .transform((text) => {
    const [, prefix, deprecatedAt, sunsetAt] = DEPRECATED_PATH.exec(text) ?? [];
    return { prefix, deprecatedAt, sunsetAt };
  })
  .pipe(z.object({ prefix: z.string(), deprecatedAt: startOfDay, sunsetAt: startOfDay }));
export const deprecatedPathsSchema = z
  .string()
  .transform((text) => text.split(",").filter((entry) => entry !== ""))
  .pipe(z.array(deprecatedPath));
/** Deprecated operations below a path prefix. Times are in Unix seconds. */
export type DeprecatedPath = z.output<typeof deprecatedPath>;

export const flagSchema = z.enum(["true", "false"]).transform((text) => text === "true");
const url = (protocol: RegExp, example: string) =>
  z
    .string()
    .refine((text) => URL.canParse(text) && protocol.test(new URL(text).protocol), `must be a URL like ${example}`);
/** Matches an EventStoreDB connection string: optional credentials, one or more hosts, and options. */
const EVENTSTORE_URL_FORMAT =
  /^(esdb|kurrentdb)(\+discover(?!.*,))?:\/\/([^/?]+@)?[\w.-]+(:\d+)?(,[\w.-]+(:\d+)?)*\/?(\?.+)?$/;
/**
 * Matches the permitted options of EventStoreDB connection strings, in lower case. For any other option, and for
 * tlsVerifyCert=false, the client would print a warning that contains the password.
 */
const EVENTSTORE_OPTIONS =
  /^(tls|tlscafile|usercertfile|userkeyfile|nodepreference|maxdiscoverattempts|discoveryinterval|gossiptimeout|defaultdeadline|keepaliveinterval|keepalivetimeout|connectionname|throwonappendfailure)$/;
export const eventStoreUrlSchema = z
  .string()
  .regex(EVENTSTORE_URL_FORMAT, {
    error: "must be like esdb://host:2113?tls=false, esdb://a,b,c or esdb+discover://host",
    // In a malformed text, a part of the password can look like an option.
    abort: true,
  })
  .superRefine((text, context) => {
    for (const name of new URLSearchParams(text.split("?")[1]).keys()) {
      if (EVENTSTORE_OPTIONS.test(name.toLowerCase())) continue;
      context.addIssue({ code: "custom", message: `must not contain the option ${name}, which has no effect` });
    }
  });
export const databaseUrlSchema = z.string().superRefine((text, context) => {
  try {
    parseConnectionString(text);
  } catch (error) {
    if (!(error instanceof ConnectionStringError)) throw error;
    context.addIssue({ code: "custom", message: error.message });
  }
});

/** @returns true for one host, and for a malformed connection string, which another rule reports */
export function hasOneHost(databaseUrl: string): boolean {
  try {
    return parseConnectionString(databaseUrl).hosts.length === 1;
  } catch {
    return true;
  }
}

export const httpUrlSchema = url(/^https?:$/, "https://host/path");

export const dnsServersSchema = z
  .string()
  .transform((text) => text.split(","))
  .refine(areServers, "must be addresses with ports like 192.0.2.53:53");

function areServers(servers: readonly string[]): boolean {
  try {
    new Resolver().setServers(servers);
    return true;
  } catch {
    return false;
  }
}

export const egressProxyUrlSchema = z
  .string()
  .refine(isProxyUrl, "must be a URL like http://host:3128 or https://user:password@host:3128");

function isProxyUrl(text: string): boolean {
  try {
    const { protocol, pathname, search, hash, username, password } = new URL(text);
    decodeURIComponent(username + password);
    return /^https?:$/.test(protocol) && pathname === "/" && search === "" && hash === "";
  } catch {
    return false;
  }
}

export const signingKeySchema = z.looseObject({
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  kid: z.string(),
  d: z.string(),
});

/** Encryption keys by id, with the id of the key that encrypts new values. */
export const encryptionKeysSchema = z
  .object({ current: z.string(), keys: z.record(z.string(), z.base64()) })
  .refine(({ current, keys }) => Object.hasOwn(keys, current), "current must name one of the keys")
  .refine(
    ({ keys }) => Object.values(keys).every((key) => Buffer.from(key, "base64").length === 32),
    "each key must be base64 of 32 bytes",
  );

/** Schema of pairs in the form of OpenTelemetry: `name=value,name=value`, with percent-encoded values. */
const pairsSchema = z.string().transform((text, context) => {
  const pairs = text.split(",").filter((pair) => pair.trim() !== "");
  try {
    return Object.fromEntries(pairs.map(parsePair));
  } catch {
    context.addIssue({ code: "custom", message: "must be pairs like name=value,name=value" });
    return z.NEVER;
  }
});

function parsePair(pair: string): [name: string, value: string] {
  const [, name, value] = /^\s*([\w.!#$%&'*+^`|~-]+)\s*=(.*)$/.exec(pair) ?? [];
  if (name === undefined || value === undefined) throw new Error("not a pair");
  return [name, decodeURIComponent(value.trim())];
}

function isCollectorUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return /^https?:$/.test(protocol) && [username, password, search, hash].every((part) => part === "");
}

export const tracingSettings = {
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .string()
    .refine(
      (text) => text === "" || isCollectorUrl(text),
      "must be a URL like http://host:4318, without user, password and query",
    )
    .transform((text) => text || undefined)
    .optional()
    .describe("URL of an OpenTelemetry collector (OTLP over HTTP). If not set or empty, tracing is off."),
  OTEL_EXPORTER_OTLP_HEADERS: pairsSchema
    .optional()
    .describe("Headers of requests to the collector, such as credentials: name=value, separated by commas.")
    .meta({ isSecret: true }),
  OTEL_SERVICE_NAME: z
    .string()
    .min(1)
    .optional()
    .describe("Name of the service in traces. If not set, the name of the process, such as command."),
  OTEL_RESOURCE_ATTRIBUTES: pairsSchema
    .optional()
    .describe("Further attributes of the process in traces: name=value, separated by commas."),
  OTEL_TRACES_SAMPLER: z
    .enum(["parentbased_always_on", "parentbased_traceidratio"])
    .default("parentbased_always_on")
    .describe("Selects the traces to record: all, or the share in OTEL_TRACES_SAMPLER_ARG."),
  OTEL_TRACES_SAMPLER_ARG: z
    .string()
    .regex(/^(0(\.\d+)?|1(\.0+)?)$/, "must be a number from 0 to 1")
    .transform(Number)
    .prefault("1")
    .describe("Share of traces to record with parentbased_traceidratio, from 0 to 1."),
} as const;
