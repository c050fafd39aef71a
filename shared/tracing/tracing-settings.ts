import { z } from "zod";

/** Creates the schema of pairs in the form of OpenTelemetry: `name=value,name=value`, with percent-encoded values. */
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

/** Settings of tracing, with the names that OpenTelemetry defines. */
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
