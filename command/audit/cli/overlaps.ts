import { InputError, RefusedError } from "../../../shared/command-line/failure.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { escapeControlCharacters, type Terminal } from "../../../shared/command-line/terminal.ts";
import { parseJson } from "../export/json.ts";
import { type AuditEvent, parseAuditEvent } from "../log/audit-event.ts";
import { checkOverlaps, OVERLAP_TYPES, type OverlapFinding, overlapsQuery } from "../queries/find-overlaps.ts";
import { type CommandOptions, runQuery } from "./queries.ts";
import { readLines, verifyFile } from "./verify-file.ts";

type OverlapOptions = CommandOptions & Partial<Record<"export" | "key", string | undefined>>;

/**
 * Prints the overlaps among a clinic's reservations, from the log or from an export, which it verifies first.
 *
 * @throws {RefusedError} if there are overlaps or events that cannot be checked, or if the export is not verified
 */
export async function showOverlaps({ export: file, key, ...options }: OverlapOptions, terminal: Terminal) {
  if ((file === undefined) !== (key === undefined)) throw new InputError("--export and --key must be combined");
  const print = (findings: Findings) => printFindings(findings, options.json, terminal);
  if (file === undefined || key === undefined) return runQuery(overlapsQuery, options, terminal, print);
  const { actor: _, ...expectedExport } = { ...options, from: "start", json: false };
  await verifyFile({ file, key, ...expectedExport }, { ...terminal, writeOutput: terminal.writeError });
  await print(checkOverlaps(readExport(file)));
}

async function* readExport(file: string) {
  for await (const line of readLines(file)) {
    const event = parseJson(Buffer.from(line).toString("utf8")) as AuditEvent;
    if (OVERLAP_TYPES.includes(event.type)) yield parseAuditEvent(event);
  }
}

type Findings = ReturnType<typeof checkOverlaps>;

async function printFindings(findings: Findings, json: boolean, terminal: Terminal): Promise<void> {
  for (let count = 0; ; count += 1) {
    const { done, value } = await findings.next();
    if (!done) await terminal.writeOutput(json ? JSON.stringify(value) : formatFinding(value));
    else if (count === 0) return terminal.writeError(`no overlaps in ${formatCount(value, "event")}`);
    else throw new RefusedError(`found ${formatCount(count, "problem")} in ${formatCount(value, "event")}`);
  }
}

function formatFinding(finding: OverlapFinding): string {
  const { position, stream, revision, problem, from, to, capacity, reservations = [] } = finding;
  const holders = reservations.map(({ holder, holderId }) => `${holder} ${holderId}`).join(", ");
  const text = problem ?? `${from} to ${to}, capacity ${capacity}: ${holders}`;
  return escapeControlCharacters(`${position}  ${stream} @ ${revision}  ${text}`);
}
