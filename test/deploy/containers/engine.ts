import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../../support/eventually.ts";
import { isInstalled, type RunOptions, run, runChecked } from "../process.ts";

/** Folder for images and downloaded programs, which later runs reuse. Can be deleted to free disk space. */
export const CACHE_FOLDER = "/var/tmp/clinic-deploy-test";

/** Name prefix of the installation folders in the cache folder. They are deleted at the end. */
export const INSTALLATION_PREFIX = "installation-";

/** Folder with the state of the running containers. As after a reboot, a simulated crash deletes it. */
const RUN_FOLDER = "/run/clinic-deploy-test";

/** podman's folder with the names and addresses of all containers on this machine. A reboot deletes it. */
const NETWORKS_FOLDER = "/run/containers/networks";

/** Image of the pause container, which holds the namespaces of a pod. */
export const PAUSE_IMAGE = "localhost/clinic-pause:latest";

/** podman with its own images, containers and networks, so that a test run cannot touch those of the machine. */
export interface Engine {
  /** Environment of `podman` and `docker-compose`. */
  env: NodeJS.ProcessEnv;
  version: string;
  /** Runs podman. @throws {Error} if the exit code is not 0 */
  podman(args: readonly string[], options?: RunOptions): Promise<string>;
  /** Runs the health checks of all containers every two seconds. Without systemd, podman does not run them. */
  startHealthChecks(): void;
  /** Simulates a power failure: kills all containers and the engine, and deletes the state that a reboot deletes. */
  crash(): Promise<void>;
  /** Starts podman's API socket. */
  start(): Promise<void>;
  /** Removes all containers, networks, volumes and installations of the test. */
  close(): Promise<void>;
}

export async function startEngine(): Promise<Engine> {
  mkdirSync(path.join(CACHE_FOLDER, "networks"), { recursive: true });
  const socket = path.join(RUN_FOLDER, "podman.sock");
  const env = {
    ...process.env,
    CONTAINERS_CONF: await writeEngineConfiguration(),
    CONTAINERS_STORAGE_CONF: path.join(CACHE_FOLDER, "storage.conf"),
    DOCKER_HOST: `unix://${socket}`,
    // Without systemd, podman cannot create the timers of health checks.
    ...(existsSync("/run/systemd/system") ? {} : { DISABLE_HC_SYSTEMD: "true" }),
  };
  const podman = (args: readonly string[], options: RunOptions = {}) => runChecked("podman", args, { env, ...options });
  const state: { service?: ChildProcess; checksHealth: boolean; healthChecks?: Promise<void> } = {
    checksHealth: false,
  };

  const engine: Engine = {
    env,
    version: (await podman(["version", "--format", "{{.Client.Version}}"])).trim(),
    podman,
    startHealthChecks() {
      if (!state.checksHealth) state.healthChecks = runHealthChecks();
    },
    async crash() {
      if ((await runChecked("podman", ["ps", "--quiet"])).trim() !== "")
        throw new Error("Other containers run on this machine, whose networks would end");
      // No program of the engine may run, because it would restore the state.
      state.service?.kill("SIGKILL");
      const checkedHealth = state.checksHealth;
      state.checksHealth = false;
      await state.healthChecks;
      const ids = (await podman(["ps", "--no-trunc", "--format", "{{.ID}}"])).split("\n").filter(Boolean);
      if (ids.length === 0) throw new Error("No container is running");
      const inspected = await podman([
        "inspect",
        "--format",
        "{{.State.ConmonPid}} {{.State.Pid}} {{.NetworkSettings.SandboxKey}}",
        ...ids,
      ]);
      const [monitors, processes, sandboxes] = [0, 1, 2].map((index) =>
        inspected.split("\n").map((line) => line.split(" ")[index] ?? ""),
      );
      const namespaces = [...new Set(sandboxes)].join(" ");
      // The monitors die first, so that nothing restarts the containers.
      for (const group of [monitors!, processes!]) await run("kill", ["-9", ...group]);
      await eventually("the end of all processes", async () => (await run("kill", ["-0", ...processes!])).code !== 0);
      // A reboot also removes mounts, network namespaces, rules and the state in /run.
      const mounts = readFileSync("/proc/mounts", "utf8")
        .split("\n")
        .map((line) => line.split(" ")[1] ?? "");
      const isOfEngine = (mount: string) =>
        mount.startsWith(`${CACHE_FOLDER}/storage/`) || mount.startsWith(RUN_FOLDER);
      const engineMounts = mounts.filter(isOfEngine).reverse();
      if (engineMounts.length > 0) await runChecked("umount", ["--lazy", ...engineMounts]);
      await runChecked("sh", ["-c", `umount --lazy ${namespaces} && rm ${namespaces}`]);
      const runtimeStates = ids.flatMap((id) => [`/run/runc/${id}`, `/run/crun/${id}`]);
      await runChecked("sh", ["-c", `kill "$(cat ${NETWORKS_FOLDER}/aardvark-dns/aardvark.pid)"`]);
      // A program of the engine that ends can still add a file, so that a removal fails with ENOTEMPTY.
      for (const file of [RUN_FOLDER, NETWORKS_FOLDER, ...runtimeStates])
        rmSync(file, { recursive: true, force: true, maxRetries: 10 });
      await removeForwarding(ids.join("|"));
      if (checkedHealth) engine.startHealthChecks();
    },
    async start() {
      mkdirSync(RUN_FOLDER, { recursive: true });
      state.service = spawn("podman", ["system", "service", "--time", "0", env.DOCKER_HOST], {
        env,
        cwd: "/",
        stdio: "ignore",
      });
      await eventually("the socket of podman", () => existsSync(socket));
    },
    async close() {
      state.checksHealth = false;
      await run("podman", ["pod", "rm", "--all", "--force", "--time", "0"], { env });
      await run("podman", ["rm", "--all", "--force", "--time", "0"], { env });
      await run("podman", ["volume", "rm", "--all", "--force"], { env });
      await run("podman", ["network", "prune", "--force"], { env });
      await run("sh", ["-c", `rm -rf ${CACHE_FOLDER}/${INSTALLATION_PREFIX}*`]);
      if (state.service && state.service.exitCode === null && state.service.signalCode === null) {
        state.service.kill("SIGTERM");
        await once(state.service, "exit");
      }
    },
  };

  async function runHealthChecks(): Promise<void> {
    state.checksHealth = true;
    while (state.checksHealth) {
      const { stdout } = await run("podman", ["ps", "--quiet"], { env });
      for (const id of stdout.split("\n").filter(Boolean)) await run("podman", ["healthcheck", "run", id], { env });
      await sleep(2_000);
    }
  }

  await engine.close();
  await removeForwarding("name: clinic_");
  // podman prefers the folders in its database to those of its configuration.
  for (const file of ["libpod/bolt_state.db", "db.sql"])
    rmSync(path.join(CACHE_FOLDER, "storage", file), { force: true });
  await engine.start();
  return engine;
}

/**
 * Removes iptables rules that forward published ports to containers that no longer exist. A killed run or a simulated
 * reboot leaves such rules.
 *
 * @param pattern extended regular expression for the comments of the rules
 */
async function removeForwarding(pattern: string): Promise<void> {
  const listRules = `iptables -t nat -S NETAVARK-HOSTPORT-DNAT | grep -E '${pattern}'`;
  for (const edit of ["s/.* -j /-t nat -F /", "s/^-A/-t nat -D/"])
    await runChecked("sh", ["-c", `${listRules} | sed '${edit}' | xargs --no-run-if-empty --max-lines=1 iptables`]);
}

/** Writes the configuration of podman. @returns the path of containers.conf */
async function writeEngineConfiguration(): Promise<string> {
  const hasSystemd = existsSync("/run/systemd/system");
  const runtime = (await isInstalled("crun")) ? "crun" : "runc";
  const engineLines = hasSystemd ? "" : `cgroup_manager = "cgroupfs"\nevents_logger = "file"\n`;
  const file = path.join(CACHE_FOLDER, "containers.conf");
  writeFileSync(
    file,
    `[containers]\ndefault_ulimits = []\n[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "${CACHE_FOLDER}/networks"\n[engine]\ninfra_image = "${PAUSE_IMAGE}"\ntmp_dir = "${RUN_FOLDER}/libpod"\nruntime = "${runtime}"\n${engineLines}`,
  );
  writeFileSync(
    path.join(CACHE_FOLDER, "storage.conf"),
    `[storage]\ndriver = "overlay"\ngraphroot = "${CACHE_FOLDER}/storage"\nrunroot = "${RUN_FOLDER}"\n`,
  );
  return file;
}
