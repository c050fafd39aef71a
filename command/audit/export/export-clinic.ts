import { z } from "zod";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import { createVisibilityFilter } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { readLogEnd, scanLog } from "../log/scan.ts";
import type { EventReadOptions } from "../queries/list-events.ts";
import { EMPTY_RANGE_ISSUE, isRangeNotEmpty } from "../queries/query-fields.ts";
import { ChainSummary, computeNextLink } from "./chain.ts";
import { toCanonicalJson } from "./json.ts";
import { EXPORT_FORMAT, type Manifest } from "./manifest.ts";
import type { ExportSigner } from "./signing.ts";

export const exportQuerySchema = z
  .strictObject({
    clinic: uuid,
    /** The range selects events by the time at which the log stored them, so a past range cannot gain events. */
    from: instant.optional(),
    to: instant.optional(),
  })
  .refine(isRangeNotEmpty, EMPTY_RANGE_ISSUE);
export type ExportQuery = z.output<typeof exportQuerySchema>;

/**
 * Returns the limit of the range that is in the future; undefined if neither is. A range with a future limit is
 * refused, because events may be added to the range after the export.
 *
 * @param now milliseconds since 1970
 */
export function findFutureParameter(query: ExportQuery, now: number): "from" | "to" | undefined {
  return (["from", "to"] as const).find((limit) => Date.parse(query[limit] ?? "") > now);
}

export interface ExportOptions extends Pick<EventReadOptions, "client" | "signal" | "onProgress"> {
  signer: ExportSigner;
  exportedBy: Manifest["made"]["by"];
  accessId: string;
  /** Time of the export in RFC 3339, and the default end of the range. */
  now: string;
}

/**
 * Exports a clinic's events in a time range, one per line, followed by a line with the signed manifest. Events that are
 * appended after the start of the export are not included. A second export of the same range has the same event lines.
 *
 * @throws {LogUnavailableError} possibly after some lines; the manifest is then missing
 */
export async function exportClinic(query: ExportQuery, options: ExportOptions): Promise<AsyncGenerator<string, void>> {
  return generateLines(query, options, await readLogEnd(options.client));
}

async function* generateLines(
  query: ExportQuery,
  options: ExportOptions,
  logEnd: bigint,
): AsyncGenerator<string, void> {
  const { client, signal, onProgress, signer, now } = options;
  const storedRange = { from: query.from ?? null, to: query.to ?? now };
  const summary = new ChainSummary();
  // An export omits events that name several clinics.
  const belongsOnlyToClinic = createVisibilityFilter([query.clinic]);
  const events = scanLog({ client, prefixes: undefined, endPosition: logEnd, signal, onProgress });
  for await (const { auditEvent } of events) {
    if (!belongsOnlyToClinic(auditEvent) || !isStoredWithin(storedRange, auditEvent)) continue;
    const canonicalEvent = toCanonicalJson(auditEvent);
    const link = computeNextLink(summary.link, canonicalEvent);
    summary.add(auditEvent, link);
    // In canonical JSON, `chain` comes before `event`.
    yield `{"chain":"${link}","event":${canonicalEvent}}\n`;
  }
  if (signal.aborted) return;
  const made = { at: now, by: options.exportedBy, accessId: options.accessId, logEnd: String(logEnd) };
  const { count, first, last, link } = summary;
  const contents = { count, first, last, chain: link, marks: summary.marks.getMarks() };
  const manifest: Manifest = { format: EXPORT_FORMAT, clinicId: query.clinic, stored: storedRange, ...contents, made };
  const signature = await signer.sign(toCanonicalJson(manifest));
  yield `${toCanonicalJson({ manifest, signature })}\n`;
}

function isStoredWithin({ from, to }: Manifest["stored"], { storedAt }: AuditEvent): boolean {
  return (from === null || storedAt >= from) && storedAt < to;
}
