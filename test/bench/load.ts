import { readFileSync } from "node:fs";
import { Pool } from "undici";

export interface LoadOptions {
  origin: string;
  path: string;
  headers: Record<string, string>;
  /** Ids of the processes whose CPU time is measured, by name. */
  pids: Record<string, readonly number[]>;
}

export interface LoadResult {
  perSecond: number;
  /** Latency in milliseconds. */
  p50: number;
  p99: number;
  /** Length of one response body in bytes. */
  bytes: number;
  /** Microseconds of CPU time per request, by name of the process. */
  cpu: Record<string, number>;
}

const CONNECTIONS = 50;
const WARM_UP_MS = 1_500;
const MEASURED_MS = 5_000;

/** Linux counts CPU time in hundredths of a second. */
const TICKS_PER_SECOND = 100;

/**
 * Sends the same GET over 50 connections for a few seconds, after a warm-up.
 *
 * @throws {Error} if the status of a response is not 200, or the lengths of the bodies differ
 */
export async function measureLoad({ origin, path, headers, pids }: LoadOptions): Promise<LoadResult> {
  const pool = new Pool(origin, { connections: CONNECTIONS, pipelining: 1 });
  const get = () => send(pool, path, headers);
  const bytes = await get();
  const run = async (milliseconds: number) => {
    const latencies: number[] = [];
    const end = performance.now() + milliseconds;
    const worker = async () => {
      for (let start = performance.now(); start < end; start = performance.now()) {
        const received = await get();
        if (received !== bytes) throw new Error(`${path}: ${received} bytes instead of ${bytes}`);
        latencies.push(performance.now() - start);
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, worker));
    return latencies.sort((a, b) => a - b);
  };
  try {
    await run(WARM_UP_MS);
    const before = cpuTimes(pids);
    const start = performance.now();
    const latencies = await run(MEASURED_MS);
    const seconds = (performance.now() - start) / 1_000;
    const after = cpuTimes(pids);
    const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
    return {
      perSecond: latencies.length / seconds,
      p50: at(0.5),
      p99: at(0.99),
      bytes,
      cpu: Object.fromEntries(
        Object.keys(pids).map((name) => [name, (((after[name] ?? 0) - (before[name] ?? 0)) / latencies.length) * 1e6]),
      ),
    };
  } finally {
    await pool.close();
  }
}

/** Sends one request and returns the length of the body. Uses `dispatch`, which costs less than `request`. */
function send(pool: Pool, path: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    let status = 0;
    let bytes = 0;
    pool.dispatch(
      { path, method: "GET", headers },
      {
        onConnect() {},
        onHeaders(statusCode) {
          status = statusCode;
          return true;
        },
        onData(chunk) {
          bytes += chunk.length;
          return true;
        },
        onComplete: () => (status === 200 ? resolve(bytes) : reject(new Error(`${path}: status ${status}`))),
        onError: reject,
      },
    );
  });
}

/** Returns the CPU time of each group of processes, including child processes. Seconds. */
function cpuTimes(pids: LoadOptions["pids"]): Record<string, number> {
  return Object.fromEntries(
    Object.entries(pids).map(([name, group]) => [
      name,
      group.flatMap(withChildren).reduce((sum, pid) => sum + cpuTime(pid), 0),
    ]),
  );
}

function withChildren(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
  return [pid, ...children.map(Number)];
}

function cpuTime(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}
