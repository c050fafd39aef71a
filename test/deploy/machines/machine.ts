/** Runs the three machines of the guide: containers with systemd, each in its own network namespace. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../../support/eventually.ts";
import { runChecked } from "../process.ts";
import { EVENTSTORE_FOLDER, findExecutable } from "./image.ts";
import { GATEWAY, setConnected } from "./network.ts";

/** podman settings that systemd in containers needs on hosts with cgroups v1. */
const PODMAN_SETTINGS = `[containers]
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
`;

/** .NET runtime for an EventStoreDB server that does not include one. */
const DOTNET_FOLDER = "/usr/share/dotnet";

export const MACHINES = ["a", "b", "c"] as const;
export type Machine = (typeof MACHINES)[number];

/** Writes the podman settings to the folder, and makes podman use them. */
export function usePodmanSettings(folder: string): void {
  const path = join(folder, "containers.conf");
  writeFileSync(path, PODMAN_SETTINGS);
  process.env.CONTAINERS_CONF = path;
}

/**
 * Starts the machines.
 *
 * @param folder shared files: `backups` is the disk for backups, and `files` is mounted as `/etc/ssl/clinic`
 * @param authorizedKey public ssh key of the administrator
 */
export async function startMachines(
  image: string,
  { folder, eventstoreFolder, authorizedKey }: { folder: string; eventstoreFolder: string; authorizedKey: string },
): Promise<void> {
  mkdirSync(join(folder, "backups"));
  writeFileSync(join(folder, "resolv.conf"), `nameserver ${GATEWAY}\noptions timeout:1\n`);
  writeFileSync(join(folder, "authorized_keys"), authorizedKey);
  for (const machine of MACHINES) {
    const volumes = [
      `${folder}/resolv.conf:/etc/resolv.conf:ro`,
      `${folder}/authorized_keys:/root/.ssh/authorized_keys:ro`,
      `${folder}/files:/etc/ssl/clinic:ro`,
      `${folder}/backups:/var/backups/clinic`,
      `${eventstoreFolder}:${EVENTSTORE_FOLDER}:ro`,
      ...(existsSync(DOTNET_FOLDER) ? [`${DOTNET_FOLDER}:${DOTNET_FOLDER}:ro`] : []),
    ];
    await runChecked("podman", [
      ...["run", "--detach", "--name", `machine-${machine}`, "--hostname", machine],
      ...["--privileged", "--systemd=always", "--ulimit", "host", "--network", `ns:/run/netns/machine-${machine}`],
      ...volumes.flatMap((volume) => ["--volume", volume]),
      image,
    ]);
  }
  const executable = findExecutable(eventstoreFolder);
  for (const machine of MACHINES) {
    await waitForSystemd(machine);
    await runOn(machine, `ln -sf ${EVENTSTORE_FOLDER}/${executable} /usr/bin/eventstored`);
  }
}

export async function removeMachines(): Promise<void> {
  for (const machine of MACHINES)
    await runChecked("podman", ["rm", "--force", "--ignore", "--time", "0", "--volumes", `machine-${machine}`]);
}

/** Runs a shell script as root on a machine. Returns its standard output. */
export function runOn(machine: Machine, script: string): Promise<string> {
  const shell = ["bash", "-e", "-o", "pipefail", "-c", script];
  return runChecked("podman", ["exec", "--workdir", "/root", "--env", "HOME=/root", `machine-${machine}`, ...shell]);
}

/** Simulates a power failure: disconnects the machine from the network and kills it. */
export async function cutPower(machine: Machine): Promise<void> {
  await setConnected(machine, false);
  await runChecked("podman", ["kill", "--signal", "KILL", `machine-${machine}`]);
}

export async function startMachine(machine: Machine): Promise<void> {
  await setConnected(machine, true);
  await runChecked("podman", ["start", `machine-${machine}`]);
  await waitForSystemd(machine);
}

async function waitForSystemd(machine: Machine): Promise<void> {
  await eventually(`systemd of ${machine} is running`, () =>
    runOn(machine, "systemctl is-active sshd.service").then(
      () => true,
      () => false,
    ),
  );
}
