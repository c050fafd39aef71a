import { runService } from "../../shared/runtime/run-service.ts";
import { startAudit } from "./start.ts";

await runService("audit", startAudit);
