/** Runs the query API in its own process, with settings from the environment. Sends its port to the parent process. */
import { startQueryApi } from "../../query-api/start.ts";

const { url } = await startQueryApi(process.env);
process.send?.(Number(new URL(url).port));
