import { Command as Program } from "commander";
import { readConfig } from "../../../shared/runtime/config.ts";
import { subjectKinds } from "../concerns/subject.ts";
import { createExportSigner } from "../export/signing.ts";
import { showEvents } from "./events.ts";
import { exportToFile } from "./export-file.ts";
import { showDiff, showReplay, showState } from "./states.ts";
import type { AuditTerminal } from "./terminal.ts";
import { type VerifyWords, verifyFile } from "./verify-file.ts";

const CALL = "npm run audit --";
const STREAM = "appointment-5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002";
const CLINIC = "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

/** The auditors' command line. Errors are thrown, not printed. */
export function createProgram(terminal: AuditTerminal): Program {
  const program = new Program("audit")
    .description(
      "Shows what is recorded, how it came to be, and proves it. That somebody looked is recorded too.",
    )
    .exitOverride()
    .configureOutput({ writeOut: (text) => void terminal.write(text), writeErr: () => {} })
    .configureHelp({ helpWidth: 110 });
  addEvents(program, terminal);
  addStates(program, terminal);
  addExport(program, terminal);
  return program;
}

/** What every command that shows something has. */
function looker(program: Program, name: string, description: string): Program {
  return program
    .command(name)
    .description(description)
    .option("--actor <name>", "who looks; by default the user of the operating system")
    .option("--json", "answer in JSON, an object a line");
}

const BY =
  "which time counts: occurred (when it happened) or stored (when the log took it); by default occurred";
const POINT = "a revision, position:<n>, a date-time with an offset, start or end";

function addEvents(program: Program, terminal: AuditTerminal): void {
  const events = looker(
    program,
    "events",
    "Lists the events of a stream, or everything that concerns one thing.",
  );
  events.option("--stream <name>", "of this stream");
  for (const kind of subjectKinds) events.option(`--${kind} <uuid>`, CONCERNS[kind]);
  events
    .option("--from <time>", "from this time on, RFC 3339")
    .option("--to <time>", "before this time")
    .option("--by <time>", BY)
    .option("--type <names>", "only these event types, with commas")
    .option("--done-by <actor>", "only what this actor did: an id, or type:id such as operator:ada")
    .option("--after <position>", "only what stands after this position in the log")
    .option("--limit <number>", "so many at the most")
    .addHelpText("after", `\nExample:\n  ${CALL} events --appointment ${STREAM.slice(12)} --actor ada`)
    .action((given) => showEvents(given, terminal));
}

const CONCERNS: Record<(typeof subjectKinds)[number], string> = {
  appointment: "of an appointment: its life, its queue ticket, its deliveries, what followed from them",
  customer: "of a customer, with animals and appointments",
  animal: "of an animal, with its appointments",
  clinic: "of a clinic",
  application: "of a partner's application: credentials, installations, endpoints, appointments, deliveries",
  correlation: "of one request, and what followed from it",
  auditor: "of an auditor, with everything that the auditor looked at",
};

function addStates(program: Program, terminal: AuditTerminal): void {
  looker(program, "as-of", "Shows the state of a stream at a point, folded by the service's own code.")
    .argument("<stream>", "such as appointment-<id>")
    .option("--at <point>", `${POINT}; by default end`)
    .option("--by <time>", BY)
    .addHelpText("after", `\nExample:\n  ${CALL} as-of ${STREAM} --at 2026-05-04T12:00:00Z`)
    .action((stream: string, given) => showState({ stream, ...given }, terminal));
  looker(program, "diff", "Shows what differs between two points of a stream, field by field.")
    .argument("<stream>", "such as appointment-<id>")
    .option("--from <point>", `${POINT}; by default start`)
    .option("--to <point>", "likewise; by default end")
    .option("--by <time>", BY)
    .addHelpText("after", `\nExample:\n  ${CALL} diff ${STREAM} --from 0 --to end`)
    .action((stream: string, given) => showDiff({ stream, ...given }, terminal));
  looker(
    program,
    "replay",
    "Steps through a stream: each event, and what it changed. Enter: the next; q: end.",
  )
    .argument("<stream>", "such as appointment-<id>")
    .option("--all", "all at once, as where there is no terminal")
    .addHelpText("after", `\nExample:\n  ${CALL} replay ${STREAM}`)
    .action((stream: string, given) => showReplay({ stream, ...given }, terminal));
}

function addExport(program: Program, terminal: AuditTerminal): void {
  looker(
    program,
    "export",
    "Writes a clinic's events into a file that proves itself, with a signed manifest.",
  )
    .option("--clinic <uuid>", "the clinic (required)")
    .option("--from <time>", "stored from this time on, RFC 3339; by default from the beginning")
    .option("--to <time>", "stored before this time; by default now")
    .option("--out <file>", "the file; by default audit-<clinic>.ndjson. It is never written over")
    .addHelpText(
      "after",
      `\nExample:\n  ${CALL} export --clinic ${CLINIC} --to 2026-06-01T00:00:00Z --out may.ndjson`,
    )
    .action((given) => exportToFile(given, terminal));
  addVerify(program, terminal);
}

function addVerify(program: Program, terminal: AuditTerminal): void {
  program
    .command("verify")
    .description(
      "Proves that an export is complete and unaltered, without the log, or names the first line that is not.",
    )
    .argument("<file>", "the export")
    .requiredOption(
      "--key <key>",
      "the key that must have signed it (required): its thumbprint, or a file with the key or key set, as `keys` prints it; one that the export brings itself would prove nothing",
    )
    .option("--clinic <uuid>", "the clinic that it must be an export of")
    .option("--from <time>", "the time that it must begin at, as it was exported; start: the log's beginning")
    .option("--to <time>", "the time that it must end at, as it was exported")
    .option("--json", "answer in one line of JSON")
    .addHelpText(
      "after",
      `\nWithout --clinic, --from and --to, a genuine export of any clinic and range passes.

Exit codes: 0 it verifies, 2 bad input, 3 it does not verify or is another export than expected.

Example:
  ${CALL} verify may.ndjson --key audit-keys.json --clinic ${CLINIC} --from start --to 2026-06-01T00:00:00Z`,
    )
    .action((file: string, given: VerifyWords) => verifyFile(file, given, terminal));
  program
    .command("keys")
    .description("Prints the public keys that verify exports, as a key set; the first one signs.")
    .option("--thumbprint", "print the thumbprint of the key that signs, to be pinned")
    .addHelpText("after", `\nExample:\n  ${CALL} keys > audit-keys.json`)
    .action(async ({ thumbprint }: { thumbprint?: boolean }) => {
      const signer = await createExportSigner(
        readConfig(["AUDIT_SIGNING_KEYS"], terminal.env).AUDIT_SIGNING_KEYS.keys,
      );
      await terminal.write(`${thumbprint ? signer.thumbprint : JSON.stringify(signer.jwks)}\n`);
    });
}
