import { runCommandLine } from "../../shared/command-line/command-line.ts";
import { runInProcess } from "../../shared/command-line/terminal.ts";
import { projectionCommandLine } from "./command-line.ts";

await runInProcess((args, terminal) => runCommandLine(projectionCommandLine, args, terminal));
