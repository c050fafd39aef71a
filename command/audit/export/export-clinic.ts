import { z } from "zod";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import { clinicStreams } from "../../../shared/domain/events/clinic.ts";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { isVisible } from "../access/visibility.ts";
import { toPurposeKey } from "../index/index-keys.ts";
import { MISSING_IN_LOG, readIndexedEvents, UNREADABLE_IN_LOG } from "../index/read-rows.ts";
import { type AuditEvent, toLogEvent } from "../log/audit-event.ts";
import { readFirstEvent } from "../log/read-stream.ts";
import { isOfLog, type ScanOptions, scanLog } from "../log/scan.ts";
import { type ReadOptions, StreamNotFoundError } from "../queries/audit-query.ts";
import { nonEmptyRange } from "../queries/query-fields.ts";
import { toCanonicalJson } from "./json.ts";
import { LineTree } from "./line-tree.ts";
import { EXPORT_FORMAT, type Manifest } from "./manifest.ts";
import { type AuditSigner, SIGNATURE_TYPES } from "./signing.ts";

/** Time that must not be in the future. Otherwise, new events could still be added to the range after the export. */
const pastInstant = instant.refine((time) => Date.parse(time) <= Date.now(), "must not be in the future");

export const exportQuerySchema = z
  .strictObject({
    clinic: uuid,
    /** Start of the range, inclusive. The range refers to the times at which the log stored the events. */
    from: pastInstant.optional(),
    to: pastInstant.optional(),
  })
  .refine(...nonEmptyRange);
type ExportQuery = z.output<typeof exportQuerySchema>;

interface ExportOptions extends Pick<ReadOptions, "client" | "index" | "signal" | "permittedClinicIds"> {
  signer: AuditSigner;
  exportedBy: Manifest["made"]["by"];
  accessId: string;
  now: string;
  /** If true, the export scans the whole log instead of using the index. */
  readsLog?: boolean;
  onProgress?: ScanOptions["onProgress"];
}

/** The log does not return events that belong to the export. The message names the first 10 of these events. */
export class MissingEventsError extends Error {
  override readonly name = "MissingEventsError";
}

/**
 * Exports a clinic's events in a time range, one per line, followed by a line with the signed manifest. Omits events
 * that are appended after the export starts. A second export of the same range has the same event lines. If reading the
 * lines throws {@link LogUnavailableError} or {@link MissingEventsError}, the export has no manifest.
 *
 * @throws {StreamNotFoundError} if the clinic does not exist, or the reader may not see it
 * @throws {DifferentLogError}
 * @throws {IndexBehindError}
 * @throws {LogUnavailableError}
 */
export async function exportClinic(query: ExportQuery, options: ExportOptions): Promise<AsyncGenerator<string, void>> {
  const { client, index, signal, signer, exportedBy, accessId, now, readsLog = false } = options;
  const clinicStream = toStreamName(clinicStreams, query.clinic);
  const isPermitted = options.permittedClinicIds?.includes(query.clinic) ?? true;
  if (!isPermitted || !(await readFirstEvent(options, clinicStream))) throw new StreamNotFoundError(clinicStream);
  const endPosition = readsLog ? await readLogEnd(client) : await index.awaitLogEnd(client);
  const stored = { from: query.from ?? null, to: query.to ?? now };
  const events = readsLog
    ? readWholeLog(options, endPosition)
    : readClinicEvents(query.clinic, stored, options, endPosition);
  return generateExportLines(events, {
    clinicId: query.clinic,
    stored,
    made: { at: now, by: exportedBy, accessId, logEnd: String(endPosition) },
    signer,
    signal,
  });
}

async function* readWholeLog(
  { client, signal = new AbortController().signal, onProgress }: ExportOptions,
  endPosition: bigint,
): AsyncGenerator<AuditEvent, void> {
  for await (const { event, position } of scanLog({ client, after: undefined, endPosition, signal, onProgress }))
    if (!isOfLog(event)) yield toLogEvent(event, position).auditEvent;
}

/** @throws {MissingEventsError} after the last event, if the log does not return events that the index contains */
async function* readClinicEvents(
  clinicId: string,
  { from, to }: Manifest["stored"],
  options: ExportOptions,
  endPosition: bigint,
): AsyncGenerator<AuditEvent, void> {
  const range = { from: from ?? undefined, to, by: "stored", before: endPosition + 1n } as const;
  const query = { keys: [toPurposeKey("clinic", clinicId)], ...range, clinicIds: [clinicId] };
  const missing: string[] = [];
  for await (const { auditEvent } of readIndexedEvents(options, query)) {
    if (options.signal?.aborted) return;
    const { problem, revision, stream } = auditEvent;
    if (problem === MISSING_IN_LOG || problem === UNREADABLE_IN_LOG) missing.push(`revision ${revision} of ${stream}`);
    else yield auditEvent;
  }
  if (missing.length > 0) {
    const rest = missing.length > MAX_NAMED_EVENTS ? ` and ${missing.length - MAX_NAMED_EVENTS} more` : "";
    throw new MissingEventsError(
      `The log does not return ${missing.slice(0, MAX_NAMED_EVENTS).join(", ")}${rest}. Their streams were deleted, or the log cannot read them.`,
    );
  }
}

const MAX_NAMED_EVENTS = 10;

interface ExportLinesOptions extends Pick<Manifest, "clinicId" | "stored" | "made"> {
  signer: Pick<AuditSigner, "sign">;
  /** If the signal aborts, the export ends without a manifest. */
  signal?: AbortSignal | undefined;
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
  const tree = new LineTree();
  for await (const event of events) {
    // An export omits events that name several clinics.
    if (!isVisible(event, [clinicId]) || !isStoredWithin(stored, event)) continue;
    const canonicalEvent = toCanonicalJson(event);
    tree.add(event, canonicalEvent);
    yield `${canonicalEvent}\n`;
  }
  if (signal?.aborted) return;
  const { count, first, last } = tree;
  const { lines, roots } = tree.getBlocks();
  const blocks = { lines, roots: roots.map((root) => root.toString("hex")) };
  const contents = { count, first, last, root: tree.computeRoot().toString("hex"), blocks };
  const manifest: Manifest = { format: EXPORT_FORMAT, clinicId, stored, ...contents, made };
  const signature = await signer.sign(toCanonicalJson(manifest), SIGNATURE_TYPES.export);
  yield `${toCanonicalJson({ manifest, signature })}\n`;
}

function isStoredWithin({ from, to }: Manifest["stored"], { storedAt }: AuditEvent): boolean {
  return (from === null || storedAt >= from) && storedAt < to;
}
