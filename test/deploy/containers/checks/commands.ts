import { expect } from "chai";
import { eventually } from "../../../support/eventually.ts";
import { check } from "../../report.ts";
import type { Engine } from "../engine.ts";
import { type Installation, PRODUCT_IMAGE, SERVICES } from "../installation.ts";

/** Runs command lines as documented, and checks that their exit codes are passed on. */
export async function checkCommands(
  { podman }: Engine,
  { compose, tryCompose, container }: Installation,
): Promise<void> {
  await check("docker-compose exec -T returns the exit code of a command line", async () => {
    const runClinic = async (...args: string[]) => (await tryCompose(["exec", "-T", "clinic", "clinic", ...args])).code;
    expect(await runClinic("projection", "status")).to.equal(0);
    expect(await runClinic("projection", "nonsense")).to.equal(2);
    expect(
      await runClinic(
        "clinic",
        "subscribe",
        "--clinic",
        crypto.randomUUID(),
        "--plan",
        "professional",
        "--status",
        "active",
      ),
    ).to.equal(3);
  });

  await check("a rebuild that the kernel kills for its memory exits with an error", async () => {
    await podman(["update", "--memory", "96m", container("clinic")]);
    try {
      const { code, output } = await tryCompose(["exec", "-T", "clinic", "clinic", "projection", "rebuild"]);
      expect(code, output).to.equal(137);
    } finally {
      await podman(["update", "--memory", "1g", container("clinic")]);
    }
    expect((await tryCompose(["exec", "-T", "clinic", "clinic", "projection", "rebuild"])).code).to.equal(0);
  });

  await check("without a temporary file system of the engine, an import finds a folder for its files", async () => {
    const variables = ["EVENTSTORE_URL", "DATABASE_URL", "PERSONAL_DATA_KEYS"].flatMap((name) => [
      "--env",
      `${name}_FILE=/run/secrets/${name === "DATABASE_URL" ? "database-url-projection" : name.toLowerCase().replaceAll("_", "-")}`,
    ]);
    const options = ["--rm", "--read-only", "--read-only-tmpfs=false", "--network", "clinic_servers", ...variables];
    const file = "/app/dist/command/cli/import/examples/move-in.ndjson";
    const args = ["--volumes-from", container("clinic"), PRODUCT_IMAGE, "clinic", "import", file, "--dry-run"];
    await podman(["run", ...options, ...args, "--actor", "test"]);
  });

  await check("no service writes to /tmp, which is read-only in Docker and Kubernetes", async () => {
    for (const service of SERVICES) expect(await compose(["exec", "-T", service, "ls", "/tmp"])).to.equal("");
  });

  await check("the container clinic applies the retention rules", async () => {
    const isApplied = async () =>
      /retention apply: data of \d+ customers/.test((await tryCompose(["logs", "clinic"])).output);
    // The container repeats a failed run after a minute.
    await eventually("the retention rules are applied", isApplied, 180_000);
  });
}
