/** Runs Prometheus and the blackbox exporter with the configurations in `deploy/` against a local stack. */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { dump, load } from "js-yaml";
import { z } from "zod";
import { withDeathSignal } from "../../../deploy/local/setup/processes.mjs";
import { findOnPath } from "../../../deploy/local/setup/system-package.ts";
import { eventually } from "../../support/eventually.ts";
import { findFreePorts } from "../../support/free-ports.ts";
import { getTlsFile } from "../../support/nats-server.ts";
import { makeTestRoot } from "../../support/stack.ts";
import { shortenedRules } from "./rules.ts";

/** Addresses to scrape (host and port) by job name, and servers to probe. */
export interface Targets {
  jobs: Record<string, string[]>;
  probes: { target: string; module: "postgres" }[];
}

const alertSchema = z.object({ labels: z.record(z.string(), z.string()), state: z.enum(["pending", "firing"]) });

export type Alert = z.infer<typeof alertSchema>;

export interface Prometheus {
  listAlerts(): Promise<Alert[]>;
  /** Evaluates a PromQL expression. @returns the value of each series */
  query(expression: string): Promise<number[]>;
  stop(): void;
}

const jobSchema = z.looseObject({ job_name: z.string(), relabel_configs: z.array(z.looseObject({})).optional() });
const configSchema = z.looseObject({ scrape_configs: z.array(jobSchema) });

const INTERVAL = "5s";

/** Returns the path of the blackbox exporter, or undefined if it is not installed. */
export function findBlackboxExporter(): string | undefined {
  return findOnPath("prometheus-blackbox-exporter") ?? findOnPath("blackbox_exporter");
}

/** Starts Prometheus, and the blackbox exporter if it is installed. Waits until every target has been scraped. */
export async function startPrometheus(program: string, targets: Targets): Promise<Prometheus> {
  const folder = makeTestRoot();
  const { command: port, queryApi: exporterPort } = await findFreePorts();
  writeFileSync(path.join(folder, "alerts.yaml"), shortenedRules);
  writeFileSync(path.join(folder, "prometheus.yaml"), dump(buildConfiguration(targets, `127.0.0.1:${exporterPort}`)));
  const exporter = findBlackboxExporter();
  const children: ChildProcess[] = [];
  const start = (command: string, args: string[]) => {
    const [runner, runnerArgs] = withDeathSignal("SIGKILL", command, args);
    children.push(spawn(runner, runnerArgs, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] }));
  };
  if (exporter) {
    const caFile = getTlsFile("servers-ca.cert");
    const modules = readDeployFile("machines/blackbox.yaml").replaceAll("/etc/prometheus/ca.crt", caFile);
    writeFileSync(path.join(folder, "blackbox.yaml"), modules);
    const listenOption = `--web.listen-address=127.0.0.1:${exporterPort}`;
    start(exporter, ["--config.file=blackbox.yaml", listenOption, "--log.level=error"]);
  }
  const listenOption = `--web.listen-address=127.0.0.1:${port}`;
  start(program, ["--config.file=prometheus.yaml", "--storage.tsdb.path=data", listenOption, "--log.level=error"]);
  const send = (requestPath: string) => fetch(`http://127.0.0.1:${port}${requestPath}`);
  const get = async (requestPath: string) => ((await (await send(requestPath)).json()) as { data: never }).data;
  await eventually("Prometheus", async () => (await send("/-/ready").catch(() => undefined))?.ok);
  const query = async (expression: string) => {
    const data = await get(`/api/v1/query?query=${encodeURIComponent(expression)}`);
    const { result } = z
      .object({ result: z.array(z.object({ value: z.tuple([z.number(), z.string()]) })) })
      .parse(data);
    return result.map(({ value }) => Number(value[1]));
  };
  const targetCount = Object.values(targets.jobs).flat().length + (exporter ? targets.probes.length : 0);
  await eventually("a scrape of each target", async () => (await query("count(up == 1)"))[0] === targetCount);
  return {
    listAlerts: async () => z.object({ alerts: z.array(alertSchema) }).parse(await get("/api/v1/alerts")).alerts,
    query,
    stop() {
      for (const child of children) child.kill("SIGKILL");
    },
  };
}

function buildConfiguration({ jobs, probes }: Targets, exporterAddress: string) {
  const config = configSchema.parse(load(readDeployFile("observability/prometheus.yaml")));
  const machinesConfig = configSchema.parse(load(readDeployFile("machines/prometheus.yaml")));
  const probeJob = machinesConfig.scrape_configs.find((job) => job.job_name === "probe")!;
  const serviceJobs = config.scrape_configs.map((job) => ({
    ...job,
    static_configs: [{ targets: jobs[job.job_name] }],
  }));
  const probeTargets = probes.map(({ target, module }) => ({ targets: [target], labels: { module } }));
  const relabelings = probeJob.relabel_configs!.map((relabeling) =>
    relabeling.target_label === "__address__" ? { ...relabeling, replacement: exporterAddress } : relabeling,
  );
  return {
    ...config,
    global: { scrape_interval: INTERVAL, scrape_timeout: INTERVAL, evaluation_interval: INTERVAL },
    scrape_configs: findBlackboxExporter()
      ? [...serviceJobs, { ...probeJob, static_configs: probeTargets, relabel_configs: relabelings }]
      : serviceJobs,
  };
}

function readDeployFile(name: string): string {
  return readFileSync(fileURLToPath(new URL(`../../../deploy/${name}`, import.meta.url)), "utf8");
}
