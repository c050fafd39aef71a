/** A trace collector: a real server on loopback that receives spans as OTLP over HTTP, in JSON. */

import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { z } from "zod";
import { listenOnLoopback } from "./loopback.ts";

const hexId = (length: number) => z.string().regex(new RegExp(`^[0-9a-f]{${length}}$`));
const attributes = z
  .array(z.object({ key: z.string(), value: z.record(z.string(), z.unknown()) }))
  .transform((pairs) => Object.fromEntries(pairs.map(({ key, value }) => [key, Object.values(value)[0]])));

const spanSchema = z.object({
  traceId: hexId(32),
  spanId: hexId(16),
  parentSpanId: hexId(16).optional(),
  name: z.string(),
  /** Kind of span: 2 server, 3 client, 4 producer, 5 consumer. */
  kind: z.number(),
  startTimeUnixNano: z.coerce.bigint(),
  endTimeUnixNano: z.coerce.bigint(),
  attributes,
  links: z.array(z.object({ traceId: hexId(32), spanId: hexId(16) })).default([]),
  /** `code` is 2 for an error. */
  status: z.object({ code: z.number(), message: z.string().optional() }),
});

const requestSchema = z.object({
  resourceSpans: z.array(
    z.object({ resource: z.object({ attributes }), scopeSpans: z.array(z.object({ spans: z.array(spanSchema) })) }),
  ),
});

export interface ReceivedSpan extends z.output<typeof spanSchema> {
  /** Value of the resource attribute `service.name`. */
  service: unknown;
}

export interface OtlpReceiver {
  url: string;
  /** Received spans, in order of arrival. */
  spans: ReceivedSpan[];
  getLastHeaders(): Record<string, unknown>;
  close(): Promise<void>;
}

/** Starts a collector. It responds with 400 to requests that are not OTLP. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  let lastHeaders: Record<string, unknown> = {};
  const server = createServer(async (request, response) => {
    lastHeaders = request.headers;
    const body = requestSchema.safeParse(await json(request));
    const isAccepted = body.success && request.method === "POST" && request.url === "/v1/traces";
    if (isAccepted) spans.push(...listSpans(body.data));
    response.writeHead(isAccepted ? 200 : 400, { "Content-Type": "application/json" }).end("{}");
  });
  const { host, close } = await listenOnLoopback(server);
  return { url: `http://${host}`, spans, getLastHeaders: () => lastHeaders, close };
}

function listSpans({ resourceSpans }: z.output<typeof requestSchema>): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans
      .flatMap((scope) => scope.spans)
      .map((span) => ({ ...span, service: resource.attributes["service.name"] })),
  );
}
