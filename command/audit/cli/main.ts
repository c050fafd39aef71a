/** The auditors' command line: `clinic audit <command> [options]`. */
import { runCommandLine } from "../../../shared/command-line/command-line.ts";
import { runInProcess } from "../../../shared/command-line/terminal.ts";
import { auditCommandLine } from "./command-line.ts";

await runInProcess((args, terminal) => runCommandLine(auditCommandLine, args, terminal));
