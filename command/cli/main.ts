/** The operators' command line: `clinic <command> [options]`. */
import { runCommandLine } from "../../shared/command-line/command-line.ts";
import { runInProcess } from "../../shared/command-line/terminal.ts";
import { clinicCommandLine } from "./command-line.ts";

await runInProcess((args, terminal) => runCommandLine(clinicCommandLine, args, terminal));
