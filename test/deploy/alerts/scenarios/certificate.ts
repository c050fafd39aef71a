/** A server whose certificate expires soon. */
import { execFileSync } from "node:child_process";
import { copyFileSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { findFreePorts } from "../../../../deploy/local/setup/ports.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { startPrometheus } from "../prometheus.ts";
import type { ScenarioGroup } from "../scenario.ts";
import { createCertificates, startTlsServer, TLS_HOST } from "../tls-server.ts";

const RUNBOOK = fileURLToPath(new URL("../../../../docs/operations/runbooks/certificate-expires.md", import.meta.url));

export const certificateGroup: ScenarioGroup = {
  alerts: ["CertificateExpires"],
  programs: ["prometheus-blackbox-exporter", "openssl"],
  async start(prometheusProgram) {
    const folder = path.join(makeTestRoot(), "secrets");
    const { nats: port } = await findFreePorts();
    createCertificates(folder);
    // The certificate of a year and the authority are as they were created, and the server gets a copy.
    const install = () => copyFileSync(path.join(folder, `${TLS_HOST}.crt`), path.join(folder, "server.crt"));
    install();
    const server = await startTlsServer(folder, port);
    const prometheus = await startPrometheus(prometheusProgram, {
      jobs: { command: [], "query-api": [], audit: [], projection: [] },
      probes: [{ target: `${TLS_HOST}:${port}`, module: "nats" }],
      caFile: path.join(folder, "ca.crt"),
    });
    /** Runs the commands of the runbook that create a certificate, and those that make nats-server read it. */
    const replaceCertificate = (days: string) => {
      execFileSync("sh", ["-ec", readScript().replaceAll("a.example", TLS_HOST).replace("825", days)], {
        cwd: folder,
        stdio: "pipe",
      });
      install();
      execFileSync("nats-server", ["--signal", `reload=${server.pid}`], { stdio: "pipe" });
    };
    return {
      prometheus,
      scenarios: [
        {
          cause: "A nats-server got a certificate that is valid for ten days.",
          alerts: [{ alert: "CertificateExpires", labels: { instance: `${TLS_HOST}:${port}` } }],
          create: async () => replaceCertificate("10"),
          followRunbook: async () => replaceCertificate("825"),
        },
      ],
      async stop() {
        prometheus.stop();
        server.kill("SIGKILL");
      },
    };
  },
};

function readScript(): string {
  const [, script] = /```sh\n([\s\S]*?)```/.exec(readFileSync(RUNBOOK, "utf8")) ?? [];
  if (script === undefined) throw new Error(`${RUNBOOK} contains no commands`);
  return script;
}
