import { z } from "zod";
import { type Command, type CommandLine, defineCommand } from "../../../shared/command-line/command-line.ts";
import { EXIT_CODE } from "../../../shared/command-line/failure.ts";
import { actorOption } from "../../../shared/command-line/operator.ts";
import { jsonOption, type Options, type OptionValues, option } from "../../../shared/command-line/option.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createAuditSigner } from "../export/signing.ts";
import { StreamNotFoundError } from "../queries/audit-query.ts";
import { subjectKinds, TooManyRelatedEventsError } from "../related-events/related-events.ts";
import { UnreadableStreamError } from "../state/replay.ts";
import { TreeHeadError } from "../tree/published-heads.ts";
import { exportToFile } from "./export-file.ts";
import { proveEvent, proveExtension } from "./proofs.ts";
import { showAccesses, showDiff, showEvents, showLatestEvents, showReplay, showState } from "./queries.ts";
import { showTreeHead } from "./tree-head.ts";
import { verifyFile, verifyProofFile } from "./verify-file.ts";

const EXAMPLE_STREAM = "appointment-5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002";
const EXAMPLE_CLINIC_ID = "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const TIME_BASIS_HELP =
  "which time of an event to use: occurred (reported by the writer) or stored (recorded by the log); default: occurred";
const POINT_HELP = "a revision, position:<n>, a date-time with an offset, `start` or `end`";

const text = z.string();
const logPosition = z.string().regex(/^\d{1,18}$/, "must be a log position");
const optionalText = (help: string, placeholder: string) => option.text(text.optional(), help, placeholder);
const stream = option.argument(text, "name of the stream, such as appointment-<id>");

/**
 * Defines a command whose runs are recorded as accesses. The schema of its query validates the options, whose texts are
 * recorded with the access.
 */
function defineAuditedCommand<O extends Options>(declaration: {
  name: string;
  summary: string;
  options: O;
  example: string;
  run(values: OptionValues<O> & { actor?: string | undefined; json: boolean }, terminal: Terminal): Promise<void>;
}): Command {
  const options = {
    ...declaration.options,
    actor: actorOption,
    json: option.flag("print one JSON object per line"),
  };
  return defineCommand({
    ...declaration,
    options,
    run: (values, terminal) => declaration.run(values as OptionValues<O> & { json: boolean }, terminal),
  });
}

const SUBJECT_HELP: Record<(typeof subjectKinds)[number], string> = {
  appointment:
    "events of an appointment, its queue ticket and webhook deliveries, and the consequences of these events",
  customer: "events of a customer, and of the customer's animals and appointments",
  animal: "events of an animal and its appointments",
  clinic: "events of a clinic",
  application: "events of a partner application: credentials, installations, endpoints, appointments, deliveries",
  correlation: "events of the request with this correlation id, and the consequences of these events",
  auditor: "events of an auditor, including all recorded accesses",
};

const queryCommands = [
  defineAuditedCommand({
    name: "events",
    summary: "Lists the events of a stream, or all events related to one object, such as an appointment or a clinic.",
    options: {
      stream: optionalText("events of this stream", "name"),
      ...Object.fromEntries(subjectKinds.map((kind) => [kind, optionalText(SUBJECT_HELP[kind], "uuid")])),
      from: optionalText("events at or after this time, RFC 3339", "time"),
      to: optionalText("events before this time, RFC 3339", "time"),
      day: optionalText("with --clinic: events of this day in the clinic's time zone, YYYY-MM-DD", "date"),
      by: optionalText(TIME_BASIS_HELP, "time"),
      type: optionalText("only these event types, separated by commas", "names"),
      doneBy: optionalText("only events of this actor: an id, or type:id such as operator:ada", "actor"),
      after: optionalText("only events after this log position", "position"),
      limit: optionalText("maximum number of events", "number"),
    },
    example: `--appointment ${EXAMPLE_STREAM.slice(12)} --actor ada`,
    run: showEvents,
  }),
  defineAuditedCommand({
    name: "latest",
    summary: "Lists the latest events of a clinic, the newest first.",
    options: {
      clinic: option.text(text, "clinic whose events are listed", "uuid"),
      before: optionalText("only events before this log position", "position"),
      limit: optionalText("maximum number of events; default: 50", "number"),
    },
    example: `--clinic ${EXAMPLE_CLINIC_ID} --limit 20`,
    run: showLatestEvents,
  }),
  defineAuditedCommand({
    name: "accesses",
    summary:
      "Lists who read or exported the records of a clinic, a customer or another object. A `possible` access may have concerned only other records.",
    options: {
      stream: optionalText("accesses to this stream", "name"),
      ...Object.fromEntries(
        subjectKinds.map((kind) => [kind, optionalText(`accesses to the ${SUBJECT_HELP[kind]}`, "uuid")]),
      ),
      from: optionalText("accesses at or after this time, RFC 3339", "time"),
      to: optionalText("accesses before this time, RFC 3339", "time"),
      after: optionalText("only accesses after this log position", "position"),
      limit: optionalText("maximum number of accesses", "number"),
    },
    example: `--clinic ${EXAMPLE_CLINIC_ID} --from 2026-05-01T00:00:00Z`,
    run: showAccesses,
  }),
  defineAuditedCommand({
    name: "as-of",
    summary: "Shows the state of a stream at a point in its history, computed with the same code as in the service.",
    options: {
      stream,
      at: optionalText(`${POINT_HELP}; default: end`, "point"),
      by: optionalText(TIME_BASIS_HELP, "time"),
    },
    example: `${EXAMPLE_STREAM} --at 2026-05-04T12:00:00Z`,
    run: showState,
  }),
  defineAuditedCommand({
    name: "diff",
    summary: "Shows the fields that differ between two points in the history of a stream.",
    options: {
      stream,
      from: optionalText(`${POINT_HELP}; default: start`, "point"),
      to: optionalText("a point in the same form as --from; default: end", "point"),
      by: optionalText(TIME_BASIS_HELP, "time"),
    },
    example: `${EXAMPLE_STREAM} --from 0 --to end`,
    run: showDiff,
  }),
  defineAuditedCommand({
    name: "replay",
    summary: "Shows the events of a stream one by one, with their changes. Press Enter for the next event, q to quit.",
    options: { stream, all: option.flag("show all events without waiting for a key") },
    example: EXAMPLE_STREAM,
    run: showReplay,
  }),
  defineAuditedCommand({
    name: "export",
    summary: "Exports the events of a clinic to a file with a signed manifest, which `verify` checks.",
    options: {
      clinic: option.text(text, "clinic whose events are exported", "uuid"),
      from: optionalText("events stored at or after this time, RFC 3339; default: start of the log", "time"),
      to: optionalText("events stored before this time, RFC 3339; default: now", "time"),
      out: optionalText("output file, which must not exist; default: audit-<clinic>.ndjson", "file"),
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
        "time",
      ),
      to: optionalText("expected end of the range, as passed to `export`", "time"),
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
    summary:
      "Proves that an event is in the Merkle tree of a tree head. Reads the event log once, or hash tiles with --position.",
    options: {
      event: option.id("id of the event"),
      position: option.text(logPosition.optional(), "log position of the event", "position"),
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
      readLog: option.flag("read the whole log even if hash tiles exist, to check that the log still has these events"),
    },
    example: "--from may.json --to june.json --out may-to-june.json",
    run: proveExtension,
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
  commands: [...queryCommands, ...proofCommands],
  ownExitCodes: [
    [StreamNotFoundError, EXIT_CODE.refused],
    [UnreadableStreamError, EXIT_CODE.refused],
    [TooManyRelatedEventsError, EXIT_CODE.refused],
    [TreeHeadError, EXIT_CODE.refused],
  ],
};
