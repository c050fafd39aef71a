/** The query API as its own process, with its settings in the environment. It sends its port to the parent. */
import { startQueryApi } from "../../query-api/start.ts";

const { url } = await startQueryApi(process.env);
process.send?.(Number(new URL(url).port));
