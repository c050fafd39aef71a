import { runService } from "../shared/runtime/run-service.ts";
import { startProjection } from "./start.ts";

await runService("projection", startProjection);
