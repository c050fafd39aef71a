/**
 * Measures `clinic import` in lines per second, and compares it with plain appends to the same log.
 *
 *     npm run bench -- import
 *
 * The file contains the customers, animals and appointments of several clinics. It is imported into an empty log, and
 * then a second time. The time of an import includes the start of the process. The compiled command runs with the same
 * Node options as the executable `clinic`.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { ensureBuilt } from "../../deploy/local/setup/build.mjs";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";
import { appendEvents } from "../../shared/eventstore/append.ts";
import { EMPTY_STREAM, REQUEST_TIMEOUT_MS } from "../../shared/eventstore/log.ts";
import { LogProcess, makeTemporaryDir } from "../deploy/eventstore/log-process.ts";
import { PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
import { createMigratedDatabase } from "../support/migrated-database.ts";
import { mochaGlobalTeardown } from "../support/stack.ts";
import { type LoadResult, measureRate, readCpuSeconds } from "./load.ts";
import { printRow } from "./report.ts";

const LINE_COUNT = 20_000;
const APPENDER_COUNT = 64;
const CLINIC_COUNT = 5;
const RESOURCES_PER_CLINIC = 8;
/** A customer, two animals, and three appointments for each animal. */
const LINES_PER_CUSTOMER = 9;
const HOUR_MS = 3_600_000;

type Line = Record<string, unknown>;

/** Creates the lines of a clinic, grouped by kind: customers, then animals, then appointments. */
function createClinicLines(clinicNumber: number, customerCount: number): Line[] {
  const [clinic, branch] = [randomUUID(), randomUUID()];
  const names = { slug: `clinic-${clinicNumber}`, name: `Clinic ${clinicNumber}` };
  const resourceIds = Array.from({ length: RESOURCES_PER_CLINIC }, () => randomUUID());
  const customerIds = Array.from({ length: customerCount }, () => randomUUID());
  const animals = customerIds.flatMap((customer) => [randomUUID(), randomUUID()].map((id) => ({ id, customer })));
  return [
    {
      command: "clinic register",
      clinicId: clinic,
      ...names,
      timezone: "Europe/Oslo",
      currency: "NOK",
      locale: "nb-NO",
    },
    { command: "branch open", branchId: branch, clinicId: clinic, name: "Main Street", city: "Bergen" },
    { command: "clinic subscribe", clinicId: clinic, plan: "professional", status: "active" },
    ...resourceIds.map((id, index) => ({
      command: "resource add",
      resourceId: id,
      clinicId: clinic,
      branchId: branch,
      resourceType: "room",
      name: `Room ${index + 1}`,
    })),
    ...customerIds.map((id, index) => ({
      command: "customer register",
      customerId: id,
      clinicId: clinic,
      fullName: `Customer ${index}`,
      phone: `+47 55 00 ${index}`,
      email: `customer-${index}@example.com`,
      city: "Bergen",
    })),
    ...animals.map(({ id, customer }, index) => ({
      command: "animal register",
      animalId: id,
      clinicId: clinic,
      customerId: customer,
      name: `Animal ${index}`,
      species: "dog",
    })),
    ...animals.flatMap(({ id: animal }, index) =>
      [0, 1, 2].map((visit) => ({
        command: "appointment import",
        appointmentId: randomUUID(),
        clinicId: clinic,
        branchId: branch,
        animalId: animal,
        reason: "Vaccination",
        scheduledAt: new Date(Date.UTC(2021 + visit, 0, 1) + index * HOUR_MS).toISOString(),
        ...(visit === 0 && { status: "cancelled" }),
        ...(visit > 0 && { status: "completed", resourceIds: [resourceIds[index % resourceIds.length]] }),
      })),
    ),
  ];
}

function createFile(dir: string, lineCount: number): { file: string; lines: Line[] } {
  const customerCount = Math.ceil(lineCount / CLINIC_COUNT / LINES_PER_CUSTOMER);
  const lines = Array.from({ length: CLINIC_COUNT }, (_, index) => createClinicLines(index + 1, customerCount)).flat();
  const file = path.join(dir, "lines.ndjson");
  fs.writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return { file, lines };
}

interface ImportResult {
  /** Duration of the process. Seconds. */
  durationSeconds: number;
  appliedCount: number;
  alreadyAppliedCount: number;
  commandCpuSeconds: number;
  logCpuSeconds: number;
  /** Maximum resident memory of the command's process. MiB. */
  peakMib: number;
}

async function runImport(file: string, log: LogProcess): Promise<ImportResult> {
  const command = [process.execPath, "--max-semi-space-size=64", executable, "import", file, "--json"];
  const logPids = { log: [log.pid] };
  const logCpuSecondsBefore = readCpuSeconds(logPids).log ?? 0;
  const startedAt = performance.now();
  // The shell reports the CPU time of the ended command.
  const child = spawn("bash", ["-c", 'TIMEFORMAT="%U %S"; time "$@"', "sh", ...command], {
    env: {
      ...process.env,
      EVENTSTORE_URL: `esdb://127.0.0.1:${log.port}?tls=false`,
      DATABASE_URL: database.urls.command,
      PERSONAL_DATA_KEYS,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { out: "", err: "" };
  child.stdout.on("data", (chunk) => (output.out += String(chunk)));
  child.stderr.on("data", (chunk) => (output.err += String(chunk)));
  let peakMib = 0;
  const samplingTimer = setInterval(() => (peakMib = Math.max(peakMib, readChildMib(child.pid ?? 0))), 50);
  const [exitCode] = await once(child, "close");
  clearInterval(samplingTimer);
  if (exitCode !== 0) throw new Error(`the import failed: ${output.out}${output.err}`);
  const totals = JSON.parse(output.out.trimEnd().split("\n").at(-1) ?? "");
  const [userSeconds = 0, systemSeconds = 0] = (output.err.trimEnd().split("\n").at(-1) ?? "").split(" ").map(Number);
  return {
    durationSeconds: (performance.now() - startedAt) / 1_000,
    appliedCount: totals.applied,
    alreadyAppliedCount: totals.alreadyApplied,
    commandCpuSeconds: userSeconds + systemSeconds,
    logCpuSeconds: (readCpuSeconds(logPids).log ?? 0) - logCpuSecondsBefore,
    peakMib,
  };
}

/** Reads the resident memory of the first child of a process; 0 if there is no child. MiB. */
function readChildMib(pid: number): number {
  try {
    const child = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ")[0];
    const status = fs.readFileSync(`/proc/${child}/status`, "utf8");
    return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1_024;
  } catch {
    // The process has just ended.
    return 0;
  }
}

const executable = path.join(await ensureBuilt(PROJECT_FOLDER), "bin", "clinic.js");
const dir = makeTemporaryDir();
const database = await createMigratedDatabase();
const log = await LogProcess.start(path.join(dir, "log"));
const client = log.createClient();
try {
  const { file, lines } = createFile(dir, LINE_COUNT);
  const data = Buffer.from(JSON.stringify(lines.at(-1)));
  const metadata = Buffer.from("{}");
  const append = () => {
    const event = { id: randomUUID(), type: "Benchmark", contentType: "application/json", data, metadata };
    return appendEvents(client, `bench-${randomUUID()}`, EMPTY_STREAM, [event], REQUEST_TIMEOUT_MS);
  };
  const measureAppends = () => measureRate({ runTask: append, concurrency: APPENDER_COUNT, pids: { log: [log.pid] } });
  const printImport = (name: string, importResult: ImportResult, referenceLoads: LoadResult[]) => {
    const referenceRate = referenceLoads.reduce((sum, { rate }) => sum + rate, 0) / referenceLoads.length;
    const toMicros = (seconds: number) => (seconds / lines.length) * 1e6;
    const cpuMicros = { command: toMicros(importResult.commandCpuSeconds), log: toMicros(importResult.logCpuSeconds) };
    const note = `peak memory ${importResult.peakMib.toFixed(0)} MiB`;
    printRow({ name, rate: lines.length / importResult.durationSeconds, referenceRate, cpuMicros, note });
  };
  const appendLoadBefore = await measureAppends();
  const firstRun = await runImport(file, log);
  const appendLoadBetween = await measureAppends();
  printImport("import", firstRun, [appendLoadBefore, appendLoadBetween]);
  const rerun = await runImport(file, log);
  printImport("repeated import", rerun, [appendLoadBetween, await measureAppends()]);
  if (firstRun.appliedCount !== lines.length || rerun.alreadyAppliedCount !== lines.length)
    throw new Error(
      `applied ${firstRun.appliedCount}, already applied ${rerun.alreadyAppliedCount} of ${lines.length} lines`,
    );
} finally {
  await mochaGlobalTeardown();
}
