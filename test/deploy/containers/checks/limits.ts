import { expect } from "chai";
import { check } from "../../report.ts";
import type { Engine } from "../engine.ts";
import type { Installation } from "../installation.ts";

/**
 * Checks that all containers have limits for memory, log size and stop time, and that the ingress does not offer
 * HTTP/3.
 */
export async function checkLimits({ podman }: Engine, { request }: Installation): Promise<void> {
  await check("every container has a memory limit, a limited log and time to stop", async () => {
    const names = (await podman(["ps", "--format", "{{.Names}}"])).split("\n");
    const format = "{{.Name}} {{.HostConfig.Memory}} {{.HostConfig.LogConfig.Size}} {{.Config.StopTimeout}}";
    const lines = (await podman(["inspect", "--format", format, ...names])).split("\n");
    expect(lines.filter((line) => !/ [1-9]\d+ 50MB (15|30|60)$/.test(line))).to.deep.equal([]);
    return `${lines.length} containers`;
  });

  await check("the ingress does not offer HTTP/3, whose port is not published", async () => {
    const { status, headers } = await request("/.well-known/jwks.json");
    expect(status).to.equal(200);
    expect(headers["alt-svc"]).to.equal(undefined);
  });
}
