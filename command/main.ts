import { runService } from "../shared/runtime/run-service.ts";
import { startCommand } from "./start.ts";

await runService("command", startCommand);
