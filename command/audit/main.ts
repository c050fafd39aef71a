import { runService } from "../../shared/runtime/run-service.ts";
import { startAuditService } from "./start.ts";

await runService("audit", startAuditService);
