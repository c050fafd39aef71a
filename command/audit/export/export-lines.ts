import { createVisibilityFilter } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { ChainSummary, computeNextLink } from "./chain.ts";
import { toCanonicalJson } from "./json.ts";
import { EXPORT_FORMAT, type Manifest } from "./manifest.ts";
import { type AuditSigner, SIGNATURE_TYPES } from "./signing.ts";

export interface ExportLinesOptions extends Pick<Manifest, "clinicId" | "stored" | "made"> {
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
