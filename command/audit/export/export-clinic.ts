import { z } from "zod";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import { clinicsOf, visibleTo } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { logEnd, scan } from "../log/scan.ts";
import type { Reading } from "../queries/list-events.ts";
import { EMPTY_RANGE, endsAfterItBegins } from "../queries/query-fields.ts";
import { canonicalJson, createChain } from "./chain.ts";
import { FORMAT, type Manifest } from "./manifest.ts";
import { createMarks } from "./marks.ts";
import type { ExportSigner } from "./signing.ts";

export const exportQuery = z
  .strictObject({
    clinic: uuid,
    /** By when the log took the events: only then does a range that is over get no more of them. */
    from: instant.optional(),
    to: instant.optional(),
  })
  .refine(endsAfterItBegins, EMPTY_RANGE);
export type ExportQuery = z.output<typeof exportQuery>;

export interface ExportOptions extends Pick<Reading, "client" | "signal" | "onProgress"> {
  signer: ExportSigner;
  by: Manifest["made"]["by"];
  accessId: string;
  /** Milliseconds since 1970; the range's end where none is given. */
  now: string;
}

/**
 * A clinic's events in a range of time, line by line, and in the last line the signed manifest. Which events they are
 * is settled when it begins: what is appended meanwhile stays out. The same range gives the same lines.
 *
 * @throws {LogUnavailable} before the first line, or later: then there is no manifest
 */
export async function exportClinic(
  query: ExportQuery,
  options: ExportOptions,
): Promise<AsyncGenerator<string, void>> {
  return lines(query, options, await logEnd(options.client));
}

async function* lines(
  query: ExportQuery,
  options: ExportOptions,
  through: bigint,
): AsyncGenerator<string, void> {
  const { client, signal, onProgress, signer, now } = options;
  const stored = { from: query.from ?? null, to: query.to ?? now };
  const chain = createChain();
  const marks = createMarks();
  let count = 0;
  let first: Manifest["first"] = null;
  let last: Manifest["last"] = null;
  for await (const { shown } of scan({ client, prefixes: undefined, through, signal, onProgress })) {
    if (!isOf(query.clinic, shown) || !isWithin(stored, shown)) continue;
    const { position, id } = shown;
    count += 1;
    first ??= { position, id };
    last = { position, id };
    const event = canonicalJson(shown);
    // The members of a line stand in canonical order.
    const link = chain.add(event);
    marks.add(link);
    yield `{"chain":"${link}","event":${event}}\n`;
  }
  if (signal.aborted) return;
  const made = { at: now, by: options.by, accessId: options.accessId, logEnd: String(through) };
  const contents = { count, first, last, chain: chain.head, marks: marks.marks() };
  const manifest: Manifest = { format: FORMAT, clinicId: query.clinic, stored, ...contents, made };
  const signature = await signer.sign(canonicalJson(manifest));
  yield `${canonicalJson({ manifest, signature })}\n`;
}

/** An event that says two clinics are its own goes into neither's export. */
function isOf(clinicId: string, event: AuditEvent): boolean {
  return clinicsOf(event).length > 0 && visibleTo([clinicId])(event);
}

function isWithin({ from, to }: Manifest["stored"], { storedAt }: AuditEvent): boolean {
  return (from === null || storedAt >= from) && storedAt < to;
}
