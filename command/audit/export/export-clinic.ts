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
    /** Compared with the time at which the log stored an event, so that a past range never gets more events. */
    from: instant.optional(),
    to: instant.optional(),
  })
  .refine(endsAfterItBegins, EMPTY_RANGE);
export type ExportQuery = z.output<typeof exportQuery>;

export interface ExportOptions extends Pick<Reading, "client" | "signal" | "onProgress"> {
  signer: ExportSigner;
  by: Manifest["made"]["by"];
  accessId: string;
  /** Time of the export, RFC 3339; the default end of the range. */
  now: string;
}

/**
 * Exports a clinic's events in a time range, one per line, followed by a line with the signed manifest. The export
 * ends at the end of the log when it starts: events appended meanwhile are not included. The same range gives the
 * same lines.
 *
 * @throws {LogUnavailableError} before the first line or later; the manifest is then missing
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
    // The members of the line are in canonical order.
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

/** Returns whether an event belongs to the clinic only. An event that names two clinics is in neither's export. */
function isOf(clinicId: string, event: AuditEvent): boolean {
  return clinicsOf(event).length > 0 && visibleTo([clinicId])(event);
}

function isWithin({ from, to }: Manifest["stored"], { storedAt }: AuditEvent): boolean {
  return (from === null || storedAt >= from) && storedAt < to;
}
