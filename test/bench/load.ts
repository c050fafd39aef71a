import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { Pool } from "undici";

export interface LoadRequest {
  method: "GET" | "POST";
  path: string;
  headers: Record<string, string>;
  body?: string;
}

export interface LoadOptions {
  origin: string;
  createNextRequest(): LoadRequest;
  /** Expected status of every response. Default: 200. */
  status?: number;
  /** Ids of the processes whose CPU time is measured, by component. */
  pids: Record<string, readonly number[]>;
  connectionCount?: number;
  /** Duration of the load before the measurement starts. Milliseconds. */
  warmUpMs?: number;
  /** Duration of the measurement. Milliseconds. */
  measuredMs?: number;
  /** Pause of each connection before a request. Milliseconds. */
  pauseMs?: number;
}

export interface LoadResult {
  rate: number;
  /** Latency in milliseconds. */
  p50: number;
  p99: number;
  /** CPU time per request, by component. Microseconds. */
  cpuMicros: Record<string, number>;
}

const WARM_UP_MS = 1_500;
const MEASURED_MS = 5_000;

/** Linux counts CPU time in hundredths of a second. */
const TICKS_PER_SECOND = 100;

/**
 * Sends requests for a few seconds, after a warm-up. Each connection waits for the response before it sends the next
 * request. There are 50 connections by default.
 *
 * @throws {Error} if a response does not have the expected status
 */
export async function measureLoad(options: LoadOptions): Promise<LoadResult> {
  const { origin, createNextRequest, status = 200, connectionCount: connections = 50, ...measurement } = options;
  const pool = new Pool(origin, { connections, pipelining: 1 });
  try {
    return await measureRate({
      runTask: () => sendRequest(pool, createNextRequest(), status),
      concurrency: connections,
      ...measurement,
    });
  } finally {
    await pool.close();
  }
}

type RateOptions = Pick<LoadOptions, "pids" | "warmUpMs" | "measuredMs" | "pauseMs"> & {
  runTask(): Promise<unknown>;
  concurrency: number;
};

/** Runs a task repeatedly in concurrent workers for a few seconds, after a warm-up. */
export async function measureRate(options: RateOptions): Promise<LoadResult> {
  const { runTask, concurrency, pids, warmUpMs = WARM_UP_MS, measuredMs = MEASURED_MS, pauseMs } = options;
  const runTasks = async (durationMs: number) => {
    const latencies: number[] = [];
    const endsAt = performance.now() + durationMs;
    const runWorker = async () => {
      while (performance.now() < endsAt) {
        if (pauseMs !== undefined) await delay(pauseMs);
        const startedAt = performance.now();
        await runTask();
        latencies.push(performance.now() - startedAt);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, runWorker));
    return latencies;
  };
  await runTasks(warmUpMs);
  let latencies: number[] = [];
  const { rate, cpuMicros } = await measureWork(pids, async () => {
    latencies = await runTasks(measuredMs);
    return latencies.length;
  });
  return { rate, cpuMicros, ...findQuantiles(latencies) };
}

/**
 * Runs work once and returns its rate: items per second, and the CPU time per item by component.
 *
 * @param run does the work and returns the number of items
 */
export async function measureWork(
  pids: LoadOptions["pids"],
  run: () => Promise<number>,
): Promise<Pick<LoadResult, "rate" | "cpuMicros">> {
  const [secondsBefore, startedAt] = [readCpuSeconds(pids), performance.now()];
  const count = await run();
  const rate = count / ((performance.now() - startedAt) / 1_000);
  const cpuEntries = Object.entries(readCpuSeconds(pids)).map(([name, seconds]) => [
    name,
    ((seconds - (secondsBefore[name] ?? 0)) / count) * 1e6,
  ]);
  return { rate, cpuMicros: Object.fromEntries(cpuEntries) };
}

/** Returns the median, the 95th and the 99th percentile; NaN if there are no values. */
export function findQuantiles(values: readonly number[]): Record<"p50" | "p95" | "p99", number> {
  const sortedValues = values.toSorted((a, b) => a - b);
  const find = (share: number) => sortedValues[Math.floor(sortedValues.length * share)] ?? Number.NaN;
  return { p50: find(0.5), p95: find(0.95), p99: find(0.99) };
}

/** Returns process ids by component, as `pids` in {@link LoadOptions}. An external server has no process id. */
export function listPids(components: Record<string, { pid: number | undefined }>): LoadOptions["pids"] {
  return Object.fromEntries(
    Object.entries(components).map(([name, { pid }]) => [name, pid === undefined ? [] : [pid]]),
  );
}

/** Number of measurements of each load in `measureInTurn`. */
const ROUND_COUNT = 10;

/** Durations of each measurement in `measureInTurn`. Milliseconds. */
const ROUND_DURATIONS = { warmUpMs: 100, measuredMs: 600 };

/** Measures two loads alternately, ten times each, because the speed of a machine varies. Returns the medians. */
export async function measureInTurn(first: LoadOptions, second: LoadOptions): Promise<[LoadResult, LoadResult]> {
  const results: [LoadResult[], LoadResult[]] = [[], []];
  await measureLoad({ ...first, measuredMs: 0 });
  await measureLoad({ ...second, measuredMs: 0 });
  for (let round = 0; round < ROUND_COUNT; round += 1) {
    results[0].push(await measureLoad({ ...first, ...ROUND_DURATIONS }));
    results[1].push(await measureLoad({ ...second, ...ROUND_DURATIONS }));
  }
  return [findMedians(results[0]), findMedians(results[1])];
}

function findMedians(results: readonly LoadResult[]): LoadResult {
  const findMedian = (select: (result: LoadResult) => number | undefined) =>
    findQuantiles(results.map((result) => select(result) ?? Number.NaN)).p50;
  const processNames = Object.keys(results[0]?.cpuMicros ?? {});
  return {
    rate: findMedian(({ rate }) => rate),
    p50: findMedian(({ p50 }) => p50),
    p99: findMedian(({ p99 }) => p99),
    cpuMicros: Object.fromEntries(processNames.map((name) => [name, findMedian(({ cpuMicros }) => cpuMicros[name])])),
  };
}

/** Sends one request and reads the response. Uses `dispatch`, which costs less CPU time than `request`. */
function sendRequest(pool: Pool, { method, path, headers, body }: LoadRequest, expectedStatus: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let status = 0;
    const chunks: Buffer[] = [];
    pool.dispatch(
      { path, method, headers, ...(body !== undefined && { body }) },
      {
        onConnect() {},
        onHeaders(statusCode) {
          status = statusCode;
          return true;
        },
        onData(chunk) {
          if (status !== expectedStatus) chunks.push(chunk);
          return true;
        },
        onComplete: () =>
          status === expectedStatus
            ? resolve()
            : reject(new Error(`${method} ${path}: status ${status}, ${Buffer.concat(chunks)}`)),
        onError: reject,
      },
    );
  });
}

/** Reads the CPU time of each component: its processes and their children, including ended children. Seconds. */
export function readCpuSeconds(pids: LoadOptions["pids"]): Record<string, number> {
  return Object.fromEntries(
    Object.entries(pids).map(([name, groupPids]) => [
      name,
      groupPids.flatMap(listProcessTreePids).reduce((sum, pid) => sum + readProcessSeconds(pid), 0),
    ]),
  );
}

function listProcessTreePids(pid: number): number[] {
  const childPids = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
  return [pid, ...childPids.map(Number)];
}

/** Reads the CPU time of a process and of its ended children. Seconds. */
function readProcessSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_SECOND;
}
