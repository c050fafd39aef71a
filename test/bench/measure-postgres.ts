import { readdirSync, readFileSync } from "node:fs";
import type pg from "pg";

export interface PostgresUse {
  /** CPU time of all processes of the server. Milliseconds. */
  cpuMs: number;
  /** Bytes of write-ahead log. */
  walBytes: number;
}

/**
 * Measures what a Postgres server on this machine spends while a workload runs, including background processes.
 * Connections must stay open during the workload, because the CPU time of ended processes is not counted.
 */
export async function measurePostgres(pool: pg.Pool, runWorkload: () => Promise<unknown>): Promise<PostgresUse> {
  // Full-page images after a checkpoint depend on the time of the checkpoint, not on the work.
  await pool.query("SELECT pg_stat_force_next_flush()");
  const useBefore = await readUse(pool);
  await runWorkload();
  const useAfter = await readUse(pool);
  return { cpuMs: useAfter.cpuMs - useBefore.cpuMs, walBytes: useAfter.walBytes - useBefore.walBytes };
}

async function readUse(pool: pg.Pool): Promise<PostgresUse> {
  const { rows } = await pool.query<{ pid: number; wal: number }>(
    "SELECT pg_backend_pid() AS pid, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 AS wal",
  );
  const { pid, wal } = rows[0]!;
  const serverPid = readParentPid(pid);
  const pidNames = readdirSync("/proc").filter(
    (name) => /^\d+$/.test(name) && readParentPid(Number(name)) === serverPid,
  );
  return { cpuMs: pidNames.reduce((sum, name) => sum + readCpuMs(Number(name)), 0), walBytes: wal };
}

/** Returns the id of a process's parent, or undefined if the process has ended. */
function readParentPid(pid: number): number | undefined {
  return Number(readProcFile(pid, "status")?.match(/^PPid:\s+(\d+)$/m)?.[1]);
}

/** Returns the CPU time of a process, or 0 if the process has ended. Milliseconds. */
export function readCpuMs(pid: number): number {
  // The first field is the time on the CPU in nanoseconds.
  return Number(readProcFile(pid, "schedstat")?.split(" ")[0] ?? 0) / 1e6;
}

function readProcFile(pid: number, name: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8");
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}
