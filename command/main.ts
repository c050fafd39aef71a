import { runService } from "../shared/runtime/run-service.ts";
import { startCommandService } from "./start.ts";

await runService("command", startCommandService);
