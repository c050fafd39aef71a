import { Command as Program } from "commander";
import { formatCommandLine } from "../../../shared/runtime/command-line.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createAuditSigner } from "../export/signing.ts";
import { subjectKinds } from "../related-events/related-events.ts";
import { exportToFile } from "./export-file.ts";
import { proveEvent, proveExtension } from "./proofs.ts";
import { showAccesses, showDiff, showEvents, showLatestEvents, showReplay, showState } from "./queries.ts";
import type { AuditTerminal } from "./terminal.ts";
import { showTreeHead } from "./tree-head.ts";
import { type VerifyOptions, type VerifyProofOptions, verifyFile, verifyProofFile } from "./verify-file.ts";

const EXAMPLE_STREAM = "appointment-5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002";
const EXAMPLE_CLINIC_ID = "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

/** Creates the program that parses the auditors' command line and runs its commands. Errors are thrown, not printed. */
export function createProgram(terminal: AuditTerminal): Program {
  const program = new Program("clinic audit")
    .description(
      "Shows, exports and verifies recorded events. Each access to the event log is itself recorded in the log.",
    )
    .exitOverride()
    .configureOutput({ writeOut: (text) => void terminal.write(text), writeErr: () => {} })
    .configureHelp({ helpWidth: 110 });
  addEventsCommand(program, terminal);
  addClinicCommands(program, terminal);
  addStateCommands(program, terminal);
  addExportCommand(program, terminal);
  addVerifyCommand(program, terminal);
  addKeysCommand(program, terminal);
  addTreeHeadCommand(program, terminal);
  addProofCommands(program, terminal);
  addVerifyProofCommand(program, terminal);
  return program;
}

/** Returns the help text for an example of a command. */
function formatExample(commandText: string): string {
  return `\nExample:\n  ${formatCommandLine(`audit ${commandText}`)}`;
}

/**
 * Adds a command with the options that all audited commands share. Each run of the command is recorded as an access.
 */
function addAuditedCommand(program: Program, name: string): Program {
  return program
    .command(name)
    .option(
      "--actor <name>",
      "your name, recorded with the access; a note if the event log knows you; default: your user name",
    )
    .option("--json", "print one JSON object per line");
}

const TIME_BASIS_HELP =
  "which time of an event to use: occurred (reported by the writer) or stored (recorded by the log); default: occurred";
const POINT_HELP = "a revision, position:<n>, a date-time with an offset, `start` or `end`";

function addEventsCommand(program: Program, terminal: AuditTerminal): void {
  const eventsCommand = addAuditedCommand(program, "events").description(
    "Lists the events of a stream, or all events related to one object, such as an appointment or a clinic.",
  );
  eventsCommand.option("--stream <name>", "events of this stream");
  for (const kind of subjectKinds) eventsCommand.option(`--${kind} <uuid>`, SUBJECT_HELP[kind]);
  eventsCommand
    .option("--from <time>", "events at or after this time, RFC 3339")
    .option("--to <time>", "events before this time, RFC 3339")
    .option("--day <date>", "with --clinic: events of this day in the clinic's time zone, YYYY-MM-DD")
    .option("--by <time>", TIME_BASIS_HELP)
    .option("--type <names>", "only these event types, separated by commas")
    .option("--done-by <actor>", "only events of this actor: an id, or type:id such as operator:ada")
    .option("--after <position>", "only events after this log position")
    .option("--limit <number>", "maximum number of events")
    .addHelpText("after", formatExample(`events --appointment ${EXAMPLE_STREAM.slice(12)} --actor ada`))
    .action((options) => showEvents(options, terminal));
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

function addClinicCommands(program: Program, terminal: AuditTerminal): void {
  addAuditedCommand(program, "latest")
    .description("Lists the latest events of a clinic, the newest first.")
    .option("--clinic <uuid>", "clinic whose events are listed (required)")
    .option("--before <position>", "only events before this log position")
    .option("--limit <number>", "maximum number of events; default: 50")
    .addHelpText("after", formatExample(`latest --clinic ${EXAMPLE_CLINIC_ID} --limit 20`))
    .action((options) => showLatestEvents(options, terminal));
  addAuditedCommand(program, "accesses")
    .description(
      "Lists who read or exported the records of a clinic. A `possible` access may have concerned only other clinics.",
    )
    .option("--clinic <uuid>", "clinic whose records were read (required)")
    .option("--from <time>", "accesses at or after this time, RFC 3339")
    .option("--to <time>", "accesses before this time, RFC 3339")
    .option("--after <position>", "only accesses after this log position")
    .option("--limit <number>", "maximum number of accesses")
    .addHelpText("after", formatExample(`accesses --clinic ${EXAMPLE_CLINIC_ID} --from 2026-05-01T00:00:00Z`))
    .action((options) => showAccesses(options, terminal));
}

function addStateCommands(program: Program, terminal: AuditTerminal): void {
  addAuditedCommand(program, "as-of")
    .description(
      "Shows the state of a stream at a point in its history, computed with the same code as in the service.",
    )
    .argument("<stream>", "name of the stream, such as appointment-<id>")
    .option("--at <point>", `${POINT_HELP}; default: end`)
    .option("--by <time>", TIME_BASIS_HELP)
    .addHelpText("after", formatExample(`as-of ${EXAMPLE_STREAM} --at 2026-05-04T12:00:00Z`))
    .action((stream: string, options) => showState({ stream, ...options }, terminal));
  addAuditedCommand(program, "diff")
    .description("Shows the fields that differ between two points in the history of a stream.")
    .argument("<stream>", "name of the stream, such as appointment-<id>")
    .option("--from <point>", `${POINT_HELP}; default: start`)
    .option("--to <point>", "a point in the same form as --from; default: end")
    .option("--by <time>", TIME_BASIS_HELP)
    .addHelpText("after", formatExample(`diff ${EXAMPLE_STREAM} --from 0 --to end`))
    .action((stream: string, options) => showDiff({ stream, ...options }, terminal));
  addAuditedCommand(program, "replay")
    .description(
      "Shows the events of a stream one by one, with their changes. Press Enter for the next event, q to quit.",
    )
    .argument("<stream>", "name of the stream, such as appointment-<id>")
    .option("--all", "show all events without waiting for a key")
    .addHelpText("after", formatExample(`replay ${EXAMPLE_STREAM}`))
    .action((stream: string, options) => showReplay({ stream, ...options }, terminal));
}

function addExportCommand(program: Program, terminal: AuditTerminal): void {
  addAuditedCommand(program, "export")
    .description("Exports the events of a clinic to a file with a signed manifest, which `verify` checks.")
    .option("--clinic <uuid>", "clinic whose events are exported (required)")
    .option("--from <time>", "events stored at or after this time, RFC 3339; default: start of the log")
    .option("--to <time>", "events stored before this time, RFC 3339; default: now")
    .option("--out <file>", "output file, which must not exist; default: audit-<clinic>.ndjson")
    .addHelpText(
      "after",
      formatExample(`export --clinic ${EXAMPLE_CLINIC_ID} --to 2026-06-01T00:00:00Z --out may.ndjson`),
    )
    .action((options) => exportToFile(options, terminal));
}

function addVerifyCommand(program: Program, terminal: AuditTerminal): void {
  program
    .command("verify")
    .description(
      "Verifies that an export is complete and unaltered. If not, names the first wrong line. Needs no event log.",
    )
    .argument("<file>", "file with the export")
    .requiredOption(
      "--key <key>",
      "the trusted key (required): a thumbprint, or a file with a public key or a key set, such as the output of `keys`. Do not take the key from the export itself.",
    )
    .option("--clinic <uuid>", "expected clinic of the export")
    .option("--from <time>", "expected start of the range, as passed to `export`; `start` for the start of the log")
    .option("--to <time>", "expected end of the range, as passed to `export`")
    .option("--json", "print the result as one line of JSON")
    .addHelpText(
      "after",
      `\nWithout --clinic, --from and --to, a genuine export of any clinic and range is accepted.

Exit codes: 0 verified, 2 invalid input, 3 not verified or not the expected export.
${formatExample(`verify may.ndjson --key audit-keys.json --clinic ${EXAMPLE_CLINIC_ID} --from start --to 2026-06-01T00:00:00Z`)}`,
    )
    .action((file: string, options: VerifyOptions) => verifyFile(file, options, terminal));
}

function addKeysCommand(program: Program, terminal: AuditTerminal): void {
  program
    .command("keys")
    .description("Prints a JSON Web Key Set with the public keys that verify exports. The first key signs new exports.")
    .option("--thumbprint", "print only the thumbprint of the signing key")
    .addHelpText("after", formatExample(`keys > audit-keys.json`))
    .action(async ({ thumbprint }: { thumbprint?: boolean }) => {
      const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], terminal.env));
      await terminal.write(`${thumbprint ? signer.thumbprint : JSON.stringify(signer.jwks)}\n`);
    });
}

function addTreeHeadCommand(program: Program, terminal: AuditTerminal): void {
  program
    .command("tree-head")
    .description(
      "Signs and publishes a head of the Merkle tree over the event log if there are new events, and prints the last tree head.",
    )
    .option("--actor <name>", "your name, recorded with a published tree head; default: your user name")
    .option("--out <file>", "write the tree head to this file, which must not exist")
    .option(
      "--timestamp-url <url>",
      "request a time stamp (RFC 3161) for the file from this server, and write it to <file>.tsr",
    )
    .option("--new-tree", "start a new tree at the beginning of the log, for example after the log was copied")
    .addHelpText("after", formatExample("tree-head --out tree-head.json"))
    .action((options) => showTreeHead(options, terminal));
}

const EXAMPLE_EVENT_ID = "9c2e1a4e-3f0b-4a59-8d51-0c7a7c0de004";

function addProofCommands(program: Program, terminal: AuditTerminal): void {
  program
    .command("prove-inclusion")
    .description("Proves that an event is in the Merkle tree of a tree head. Reads the event log once.")
    .requiredOption("--event <uuid>", "id of the event (required)")
    .option("--head <file>", "file with the tree head; default: the last published tree head")
    .option("--out <file>", "write the proof to this file, which must not exist")
    .option("--actor <name>", "your name, recorded with the access; default: your user name")
    .addHelpText("after", formatExample(`prove-inclusion --event ${EXAMPLE_EVENT_ID} --out inclusion.json`))
    .action((options) => proveEvent(options, terminal));
  program
    .command("prove-consistency")
    .description(
      "Proves that nothing before a tree head has changed: the tree of a later tree head starts with the same events.",
    )
    .requiredOption("--from <file>", "file with the earlier tree head (required)")
    .option("--to <file>", "file with the later tree head; default: the last published tree head")
    .option("--out <file>", "write the proof to this file, which must not exist")
    .addHelpText("after", formatExample("prove-consistency --from may.json --to june.json --out may-to-june.json"))
    .action((options) => proveExtension(options, terminal));
}

function addVerifyProofCommand(program: Program, terminal: AuditTerminal): void {
  program
    .command("verify-proof")
    .description("Verifies a tree head, an inclusion proof or a consistency proof. Needs no event log.")
    .argument("<file>", "file with the tree head or the proof")
    .requiredOption("--key <key>", "the trusted key (required), as for `verify`")
    .option("--head <file...>", "tree heads that you hold; the file must be about them")
    .option("--json", "print the result as one line of JSON")
    .addHelpText(
      "after",
      `\nExit codes: 0 verified, 2 invalid input, 3 not verified.\n${formatExample("verify-proof inclusion.json --key audit-keys.json --head june.json")}`,
    )
    .action((file: string, options: VerifyProofOptions) => verifyProofFile(file, options, terminal));
}
