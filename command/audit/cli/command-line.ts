import { z } from "zod";
import { type CommandLine, defineCommand } from "../../../shared/command-line/command-line.ts";
import { describeFailure } from "../../../shared/command-line/describe-failure.ts";
import { EXIT_CODE, InputError, RefusedError } from "../../../shared/command-line/failure.ts";
import { formatCommandLine } from "../../../shared/command-line/format-command-line.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { LOCAL_TIME_NOTE, withLocalTimes } from "../../../shared/command-line/local-times.ts";
import { actorOption } from "../../../shared/command-line/operator.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { escapeControlCharacters, type Terminal } from "../../../shared/command-line/terminal.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { findTimeZone } from "../../cli/find-time-zone.ts";
import { NAME_NOTE, withNames } from "../../cli/resolve-options.ts";
import { exportClinic, exportQuerySchema, MissingEventsError } from "../export/export-clinic.ts";
import { parseJson } from "../export/json.ts";
import { createAuditSigner } from "../export/signing.ts";
import { DifferentLogError, IndexDamagedError } from "../index/audit-index.ts";
import { type AuditEvent, parseAuditEvent } from "../log/audit-event.ts";
import { StreamNotFoundError } from "../queries/audit-query.ts";
import { checkOverlaps, OVERLAP_TYPES, type OverlapFinding, overlapsQuery } from "../queries/find-overlaps.ts";
import { UnreadableStreamError } from "../state/replay.ts";
import { TreeHeadError } from "../tree/published-heads.ts";
import { requireNewFile, writeAtomically } from "./output-file.ts";
import {
  type CommandOptions,
  EXAMPLE_CLINIC_ID,
  queryCommands,
  readQuery,
  runQuery,
  toQueryOptions,
  withAuditedAccess,
} from "./queries.ts";
import {
  createProgressReporter,
  proveEvent,
  proveExtension,
  showRebuild,
  showTreeHead,
  showVerification,
} from "./tree.ts";
import { readLines, verifyFile, verifyProofFile } from "./verify-file.ts";

const text = z.string();
const optionalText = (help: string, placeholder: string) => option.text(text.optional(), help, placeholder);

const auditedOptions = { actor: actorOption, json: option.flag("print one JSON object per line") };

/** Commands that read a clinic's records. Each run is recorded as an access. */
const clinicCommands = [
  defineCommand({
    name: "overlaps",
    summary: "Finds overlaps among a clinic's reservations that were not recorded as overbooked.",
    options: {
      clinic: optionalText("clinic whose reservations are checked; optional with --export", "uuid"),
      export: optionalText("check an export instead of the event log; it must include the start", "file"),
      key: optionalText("with --export: the trusted key, as for `verify`", "key"),
      ...auditedOptions,
    },
    example: `--clinic ${EXAMPLE_CLINIC_ID}`,
    run: showOverlaps,
  }),
  defineCommand({
    name: "export",
    summary: "Exports the events of a clinic to a file with a signed manifest, which `verify` checks.",
    options: {
      ...toQueryOptions(exportQuerySchema, {
        from: "events stored at or after this time; default: start of the log",
        to: "events stored before this time; default: now",
      }),
      out: optionalText("output file, which must not exist; default: audit-<clinic>.ndjson", "file"),
      readLog: option.flag("read the whole log instead of the audit index"),
      ...auditedOptions,
    },
    example: `--clinic ${EXAMPLE_CLINIC_ID} --to 2026-06-01T00:00:00Z --out may.ndjson`,
    run: exportToFile,
  }),
];

const proofCommands = [
  defineCommand({
    name: "verify",
    summary:
      "Verifies that an export is complete and unaltered. If not, names the first wrong line. Needs no event log.",
    options: {
      file: option.argument(text, "file with the export"),
      key: option.text(
        text,
        "the trusted key: a thumbprint, or a file with a public key or a key set, such as the output of `keys`. Do not take the key from the export itself",
        "key",
      ),
      clinic: optionalText("expected clinic of the export", "uuid"),
      from: optionalText(
        "expected start of the range, as passed to `export`; `start` for the start of the log",
        "date, time or start",
      ),
      to: optionalText("expected end of the range, as passed to `export`", "date or time"),
      json: jsonOption,
    },
    example: `may.ndjson --key audit-keys.json --clinic ${EXAMPLE_CLINIC_ID} --from start --to 2026-06-01T00:00:00Z`,
    details: `Without --clinic, --from and --to, a genuine export of any clinic and range is accepted.

Exit codes: 0 verified, 2 invalid input, 3 not verified or not the expected export.`,
    run: verifyFile,
  }),
  defineCommand({
    name: "keys",
    summary: "Prints a JSON Web Key Set with the public keys that verify exports. The first key signs new exports.",
    options: { thumbprint: option.flag("print only the thumbprint of the signing key") },
    example: "> audit-keys.json",
    async run({ thumbprint }, { env, writeOutput }) {
      const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], env));
      await writeOutput(thumbprint ? signer.thumbprint : JSON.stringify(signer.jwks));
    },
  }),
  defineCommand({
    name: "tree-head",
    summary:
      "Signs and publishes a head of the Merkle tree over the event log if there are new events, and prints the last tree head.",
    options: {
      actor: actorOption,
      out: optionalText("write the tree head to this file, which must not exist", "file"),
      newTree: option.flag("start a new tree at the beginning of the log, for example after the log was copied"),
    },
    example: "--out tree-head.json",
    run: showTreeHead,
  }),
  defineCommand({
    name: "prove-inclusion",
    summary: "Proves that an event is in the Merkle tree of a tree head.",
    options: {
      event: option.id("id of the event"),
      head: optionalText("file with the tree head; default: the last published tree head", "file"),
      out: optionalText("write the proof to this file, which must not exist", "file"),
      actor: actorOption,
    },
    example: "--event 9c2e1a4e-3f0b-4a59-8d51-0c7a7c0de004 --out inclusion.json",
    run: proveEvent,
  }),
  defineCommand({
    name: "prove-consistency",
    summary:
      "Proves that nothing before a tree head has changed: the tree of a later tree head starts with the same events.",
    options: {
      from: option.text(text, "file with the earlier tree head", "file"),
      to: optionalText("file with the later tree head; default: the last published tree head", "file"),
      out: optionalText("write the proof to this file, which must not exist", "file"),
    },
    example: "--from may.json --to june.json --out may-to-june.json",
    run: proveExtension,
  }),
  defineCommand({
    name: "verify-index",
    summary: "Reads the whole event log, and compares it with the audit index and the published tree heads.",
    options: {},
    example: "",
    run: showVerification,
  }),
  defineCommand({
    name: "rebuild-index",
    summary: "Fills a new audit index from the event log, next to the live one, and then replaces the live one.",
    options: { newTree: option.flag("accept another tree than that of the published heads, as of a copied log") },
    example: "",
    details: `Needs the DATABASE_URL of the projection service. If the command is interrupted, the live index stays as it is.`,
    run: showRebuild,
  }),
  defineCommand({
    name: "verify-proof",
    summary: "Verifies a tree head, an inclusion proof or a consistency proof. Needs no event log.",
    options: {
      file: option.argument(text, "file with the tree head or the proof"),
      key: option.text(text, "the trusted key, as for `verify`", "key"),
      head: option.values(z.array(text).default([]), "tree heads that you hold; the file must be about them", "file"),
      json: jsonOption,
    },
    example: "inclusion.json --key audit-keys.json --head june.json",
    details: "Exit codes: 0 verified, 2 invalid input, 3 not verified.",
    run: verifyProofFile,
  }),
];

export const auditCommandLine: CommandLine = {
  program: "clinic audit",
  description:
    "Shows, exports and verifies recorded events. Each access to the event log is itself recorded in the log.",
  commands: [
    ...[...queryCommands, ...clinicCommands].map((command) => withNames(withLocalTimes(command, findTimeZone))),
    // `verify` needs no event log.
    ...proofCommands.map((command) => withLocalTimes(command)),
  ],
  details: `${NAME_NOTE}\n${LOCAL_TIME_NOTE}`,
  describeFailure: (error) =>
    describeFailure(
      error,
      [
        StreamNotFoundError,
        UnreadableStreamError,
        MissingEventsError,
        TreeHeadError,
        IndexDamagedError,
        DifferentLogError,
      ].map((errorClass) => [errorClass, EXIT_CODE.refused]),
    ),
};

/**
 * Writes a clinic's events and the signed manifest to a file that only its owner can read. The file appears only
 * when it is complete.
 */
async function exportToFile(
  { actor, json, out, readLog, ...options }: CommandOptions & { out?: string | undefined; readLog: boolean },
  terminal: Terminal,
): Promise<void> {
  const query = readQuery(exportQuerySchema, options);
  const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], terminal.env));
  const file = out ?? `audit-${query.clinic}.ndjson`;
  requireNewFile(file);
  await withAuditedAccess(terminal, { actor, action: "export", query: options }, async (dependencies) => {
    const { client, index, context, accessId } = dependencies;
    const onProgress = createProgressReporter(terminal);
    const exportedBy = { type: context.actor.type, id: context.actor.id };
    const exportContext = { permittedClinicIds: null, signer, exportedBy, accessId, now: toInstant(context.now) };
    const lines = await exportClinic(query, { client, index, onProgress, readsLog: readLog, ...exportContext });
    const lineCount = await writeAtomically(file, lines);
    const summary = { file, events: lineCount - 1, key: signer.thumbprint };
    const { clinic: clinicId, from = "start", to = exportContext.now } = query;
    const verifyCommand = `verify ${file} --key ${summary.key} --clinic ${clinicId} --from ${from} --to ${to}`;
    const text = `export: wrote ${formatCount(summary.events, "event")} to ${file}\nverify it with: ${formatCommandLine(`audit ${verifyCommand}`)}`;
    await terminal.writeOutput(json ? JSON.stringify(summary) : text);
  });
}

type OverlapOptions = CommandOptions & Partial<Record<"export" | "key", string | undefined>>;

/**
 * Prints the overlaps among a clinic's reservations in the log, or in an export file. Verifies the export first.
 *
 * @throws {RefusedError} if there are overlaps or events that cannot be checked, or if the export is not verified
 */
async function showOverlaps({ export: file, key, ...options }: OverlapOptions, terminal: Terminal) {
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
