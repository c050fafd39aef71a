import { z } from "zod";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { createVisibilityFilter } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { type ScanOptions, scanLog } from "../log/scan.ts";
import type { ReadOptions } from "../queries/audit-query.ts";
import { EMPTY_RANGE_ISSUE, isRangeNotEmpty } from "../queries/query-fields.ts";
import { ChainSummary, computeNextLink } from "./chain.ts";
import { toCanonicalJson } from "./json.ts";
import { EXPORT_FORMAT, type Manifest } from "./manifest.ts";
import { type AuditSigner, SIGNATURE_TYPES } from "./signing.ts";

export const exportQuerySchema = z
  .strictObject({
    clinic: uuid,
    /** The range selects events by the time at which the log stored them, so a past range cannot gain events. */
    from: instant.optional(),
    to: instant.optional(),
  })
  .refine(isRangeNotEmpty, EMPTY_RANGE_ISSUE);
type ExportQuery = z.output<typeof exportQuerySchema>;

/**
 * Returns the limit of the range that is in the future; undefined if neither is. A range with a future limit is
 * refused, because events may be added to the range after the export.
 *
 * @param now milliseconds since 1970
 */
export function findFutureParameter(query: ExportQuery, now: number): "from" | "to" | undefined {
  return (["from", "to"] as const).find((limit) => Date.parse(query[limit] ?? "") > now);
}

interface ExportOptions extends Pick<ReadOptions, "client" | "signal" | "onProgress"> {
  signer: AuditSigner;
  exportedBy: Manifest["made"]["by"];
  accessId: string;
  now: string;
}

/**
 * Exports a clinic's events in a time range, one per line, followed by a line with the signed manifest. Events that are
 * appended after the start of the export are not included. A second export of the same range has the same event lines.
 *
 * @throws {LogUnavailableError} possibly after some lines; the manifest is then missing
 */
export async function exportClinic(query: ExportQuery, options: ExportOptions): Promise<AsyncGenerator<string, void>> {
  const { client, signal, onProgress, signer, exportedBy, accessId, now } = options;
  const endPosition = await readLogEnd(client);
  return generateExportLines(readAuditEvents({ client, prefixes: undefined, endPosition, signal, onProgress }), {
    clinicId: query.clinic,
    stored: { from: query.from ?? null, to: query.to ?? now },
    made: { at: now, by: exportedBy, accessId, logEnd: String(endPosition) },
    signer,
    signal,
  });
}

async function* readAuditEvents(options: ScanOptions): AsyncGenerator<AuditEvent, void> {
  for await (const { auditEvent } of scanLog(options)) yield auditEvent;
}

interface ExportLinesOptions extends Pick<Manifest, "clinicId" | "stored" | "made"> {
  signer: Pick<AuditSigner, "sign">;
  /** If this signal has aborted after the last event, the manifest is omitted. */
  signal: AbortSignal;
}

/**
 * Yields the lines of an export: one line for each event that belongs only to the clinic and was stored in the range,
 * and a line with the signed manifest. docs/audit-format.md specifies the bytes.
 *
 * @param events in the order of their log positions
 */
export async function* generateExportLines(
  events: AsyncIterable<AuditEvent>,
  { clinicId, stored, made, signer, signal }: ExportLinesOptions,
): AsyncGenerator<string, void> {
  const summary = new ChainSummary();
  // An export omits events that name several clinics.
  const belongsOnlyToClinic = createVisibilityFilter([clinicId]);
  for await (const event of events) {
    if (!belongsOnlyToClinic(event) || !isStoredWithin(stored, event)) continue;
    const canonicalEvent = toCanonicalJson(event);
    const link = computeNextLink(summary.link, canonicalEvent);
    summary.add(event, link);
    // In canonical JSON, `chain` comes before `event`.
    yield `{"chain":"${link}","event":${canonicalEvent}}\n`;
  }
  if (signal.aborted) return;
  const { count, first, last, link } = summary;
  const contents = { count, first, last, chain: link, marks: summary.marks.getMarks() };
  const manifest: Manifest = { format: EXPORT_FORMAT, clinicId, stored, ...contents, made };
  const signature = await signer.sign(toCanonicalJson(manifest), SIGNATURE_TYPES.export);
  yield `${toCanonicalJson({ manifest, signature })}\n`;
}

function isStoredWithin({ from, to }: Manifest["stored"], { storedAt }: AuditEvent): boolean {
  return (from === null || storedAt >= from) && storedAt < to;
}
