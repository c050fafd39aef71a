/**
 * Installs the product on three machines with the commands in deploy/machines/README.md. Then stops each machine once
 * under load. Prints one line for each check. Exits with 1 if a check failed.
 *
 *     EVENTSTORE_SERVER=<folder of a published EventStoreDB or KurrentDB server> npm run test:machines
 *
 * Without EVENTSTORE_SERVER, an embedded log outside of the machines replaces the EventStoreDB cluster.
 *
 * Runs as root on Debian 12 with podman, runc and debootstrap. Needs about 8 GB of memory and 10 GB of disk space.
 */
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { eventually } from "../../support/eventually.ts";
import { isInstalled } from "../process.ts";
import { check, skip, summarize } from "../report.ts";
import { createAdministrator } from "./administrator.ts";
import { createCertificates } from "./authority.ts";
import { readSteps } from "./guide.ts";
import { buildImage } from "./image.ts";
import { followGuide } from "./installation.ts";
import { removeMachines, runOn, startMachines, usePodmanSettings } from "./machine.ts";
import { createNetwork, GATEWAY, PUBLIC_NAME, RECEIVER_NAME, removeNetwork, startNameServer } from "./network.ts";
import { setUpClinic } from "./onboarding.ts";
import { loseMachine, losePrimary, type World } from "./outages.ts";
import { type Account, createPartner, type Partner } from "./partner.ts";
import { startReceiver } from "./receiver.ts";

const projectFolder = fileURLToPath(new URL("../../..", import.meta.url));
const guide = readSteps(readFileSync(join(projectFolder, "deploy/machines/README.md"), "utf8"));
const standInFolder = fileURLToPath(new URL("stand-in", import.meta.url));

async function findObstacle(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "this test must run as root";
  for (const program of ["podman", "runc", "debootstrap", "ip", "unshare", "openssl", "ssh", "npm"])
    if (!(await isInstalled(program))) return `${program} is missing`;
  return undefined;
}

/** Functions that remove what the test has created. They run in reverse order. */
const cleanUps: (() => unknown)[] = [];

/** Starts the machines, the network, the name server and the partner's receiver. */
async function prepare(folder: string) {
  const eventstoreFolder = resolve(process.env.EVENTSTORE_SERVER ?? standInFolder);
  const isStandIn = eventstoreFolder === standInFolder;
  if (isStandIn) skip("a cluster of EventStoreDB", "EVENTSTORE_SERVER does not name the folder of a server");
  const steps = isStandIn ? guide.filter(({ script }) => !script.includes("/gossip")) : guide;
  usePodmanSettings(folder);
  const image = await buildImage(folder);
  const certificates = join(folder, "files");
  mkdirSync(certificates);
  await createCertificates(certificates, [PUBLIC_NAME, RECEIVER_NAME]);
  for (const file of readdirSync(certificates)) chmodSync(join(certificates, file), 0o644);
  await removeMachines();
  cleanUps.push(removeNetwork);
  await createNetwork();
  const nameServer = await startNameServer();
  cleanUps.push(() => nameServer.close());
  if (isStandIn) {
    const printLine = (line: string) => process.stderr.write(`${line}\n`);
    const log = await startLogServer({ dir: join(folder, "log"), host: GATEWAY, port: 2113, printLine });
    cleanUps.push(() => log.stop());
  }
  const receiver = await startReceiver(certificates);
  cleanUps.push(() => receiver.close());
  const administrator = await createAdministrator(projectFolder, folder);
  cleanUps.push(removeMachines);
  await startMachines(image, { folder, eventstoreFolder, authorizedKey: administrator.authorizedKey });
  return { steps, administrator, receiver, authority: readFileSync(join(certificates, "ca.crt"), "utf8") };
}

async function testGuide(folder: string): Promise<void> {
  const { authority, ...world } = await prepare(folder);
  const installation = world.steps.filter(({ section }) => /^\d/.test(section));
  if (!(await followGuide(installation, world.administrator))) return skip("all later promises", "the guide failed");
  let account: Account | undefined;
  const isSetUp = await check("the commands of docs/operations/onboarding.md", async () => {
    account = await setUpClinic("a", projectFolder);
  });
  if (!isSetUp || !account) return skip("all later promises", "the onboarding failed");
  const partner = createPartner(account, authority);
  cleanUps.push(() => partner.close());
  await testLosses({ ...world, partner });
}

/** Creates appointments while each machine is lost once. Checks that no acknowledged appointment is lost. */
async function testLosses(world: World): Promise<void> {
  const { partner, receiver } = world;
  await check("HTTPS at the public name answers", async () => {
    for (const path of ["/docs", "/.well-known/jwks.json"]) await waitForPath(partner, path);
  });
  const stopCreating = partner.startCreating();
  await check("webhooks arrive", async () => {
    await eventually("ten webhooks", () => receiver.arrivals.size >= 10);
  });
  await loseMachine("c", world);
  await loseMachine("b", world);
  await losePrimary(world);
  await stopCreating();
  await check("every acknowledged create exists", async () => {
    for (const id of partner.acknowledged.keys()) await waitForPath(partner, `/production/v1/appointments/${id}`);
    return `${partner.acknowledged.size} creates, after ${partner.getRetryCount()} retries`;
  });
  await check("every acknowledged create has caused a webhook", async () => {
    const isComplete = () => [...partner.acknowledged.keys()].every((id) => receiver.arrivals.has(id));
    await eventually("the last webhook", isComplete, 300_000);
    return `${receiver.arrivals.size} webhooks`;
  });
  await check("clinic projection verify", async () => {
    await runOn("a", "set -a; . /etc/clinic/clinic.env; clinic projection verify");
  });
}

async function waitForPath(partner: Partner, path: string): Promise<void> {
  await eventually(path, async () => (await partner.get(path).catch(() => 0)) === 200);
}

const obstacle = await findObstacle();
if (obstacle) skip("the guide for three machines", obstacle);
else {
  const folder = mkdtempSync(join(tmpdir(), "machine-"));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  try {
    await testGuide(folder);
  } finally {
    for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  }
}
process.exitCode = summarize();
