/** Builds the image of the machines: Debian 12 with systemd and the packages that the guide requires. */
import { createHash } from "node:crypto";
import { chmodSync, cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { runChecked } from "../process.ts";

const PACKAGES = [
  ...["systemd", "systemd-sysv", "dbus", "openssh-server", "ca-certificates", "iproute2", "procps", "libicu72"],
  ...["acl", "curl", "jq", "openssl", "postgresql-15", "nats-server", "caddy"],
  ...["prometheus", "prometheus-blackbox-exporter", "prometheus-alertmanager"],
];

/** Folder on each machine into which the server of EventStoreDB is mounted. */
export const EVENTSTORE_FOLDER = "/opt/eventstore";

/** systemd unit of EventStoreDB's Debian package, with settings that save memory. */
const EVENTSTORE_UNIT = `[Unit]
Description=EventStoreDB
After=network.target

[Service]
User=eventstore
Group=eventstore
Environment=DOTNET_gcServer=0 EVENTSTORE_CHUNKS_CACHE_SIZE=0
ExecStart=/usr/bin/eventstored
Restart=on-failure
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
`;

/** Creates the user and folders that EventStoreDB's Debian package creates, and removes cached packages. */
const PREPARE_SCRIPT = `set -e
useradd --system --home-dir /var/lib/eventstore --shell /usr/sbin/nologin eventstore
install -d -o eventstore -g eventstore /etc/eventstore /var/lib/eventstore /var/log/eventstore
apt-get clean
`;

/**
 * Builds the image with debootstrap. If an earlier run has built it, only returns its name.
 *
 * @param temporaryFolder folder for the root file system during the build
 */
export async function buildImage(temporaryFolder: string): Promise<string> {
  const inputs = JSON.stringify([PACKAGES, EVENTSTORE_UNIT, PREPARE_SCRIPT, process.version]);
  const image = `machine-base:${createHash("sha256").update(inputs).digest("hex").slice(0, 12)}`;
  const images = await runChecked("podman", ["image", "ls", "--format", "{{.Repository}}:{{.Tag}}"]);
  if (images.includes(image)) return image;
  const root = join(temporaryFolder, "root");
  const mirror = process.env.DEBIAN_MIRROR ?? "http://deb.debian.org/debian";
  const options = ["--variant=minbase", `--include=${PACKAGES.join()}`];
  // In a mount namespace of its own, an interrupted debootstrap leaves no mounted file systems.
  await runChecked("unshare", ["--mount", "debootstrap", ...options, "bookworm", root, mirror]);
  cpSync(process.execPath, join(root, "usr/bin/node"));
  chmodSync(join(root, "usr/bin/node"), 0o755);
  const unitPath = join(root, "lib/systemd/system/eventstore.service");
  mkdirSync(dirname(unitPath), { recursive: true });
  writeFileSync(unitPath, EVENTSTORE_UNIT);
  await runChecked("chroot", [root, "sh", "-c", PREPARE_SCRIPT]);
  await runChecked("sh", [
    "-c",
    `tar -C ${root} --one-file-system -c . | podman import --change 'CMD ["/sbin/init"]' - ${image}`,
  ]);
  rmSync(root, { recursive: true });
  return image;
}

/** Returns the name of the EventStoreDB or KurrentDB executable in the folder. @throws {Error} if there is none */
export function findExecutable(folder: string): string {
  const name = ["KurrentDB", "kurrentd", "EventStore.ClusterNode", "eventstored", "eventstored.cjs"].find((candidate) =>
    existsSync(join(folder, candidate)),
  );
  if (name === undefined) throw new Error(`${folder} contains no executable of EventStoreDB`);
  return name;
}
