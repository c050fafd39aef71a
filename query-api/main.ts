import { runService } from "../shared/runtime/run-service.ts";
import { startQueryApi } from "./start.ts";

await runService("query-api", startQueryApi);
