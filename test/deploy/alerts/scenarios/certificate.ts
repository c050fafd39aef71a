/** Scenario: a server's certificate expires soon. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { createMetrics } from "../../../../projection/status/metrics.ts";
import { watchServerCertificates } from "../../../../projection/status/server-certificates.ts";
import { findFreePort } from "../../../support/free-ports.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { startPrometheus } from "../prometheus.ts";
import type { ScenarioGroup } from "../scenario.ts";
import { createCertificates, startTlsServer, TLS_HOST } from "../tls-server.ts";

const RUNBOOK = fileURLToPath(new URL("../../../../docs/operations/runbooks.md", import.meta.url));

export const certificateGroup: ScenarioGroup = {
  alerts: ["CertificateExpires"],
  programs: ["openssl"],
  async start(prometheusProgram) {
    const folder = path.join(makeTestRoot(), "secrets");
    const port = await findFreePort();
    createCertificates(folder);
    // The certificate of a year and the authority are as they were created, and the server gets a copy.
    const install = () => copyFileSync(path.join(folder, `${TLS_HOST}.crt`), path.join(folder, "server.crt"));
    install();
    const server = await startTlsServer(folder, port);
    // Only the part of the projection service that reads the certificates.
    const config = {
      EVENTSTORE_URL: "esdb://none?tls=false",
      DATABASE_URL: "postgres:///none",
      NATS_URL: `tls://${TLS_HOST}:${port}`,
    };
    const metrics = createMetrics();
    const watch = () => watchServerCertificates(config, metrics, pino({ enabled: false }));
    let stopWatching = watch();
    const service = createServer(async (_, response) => response.end(await metrics.registry.metrics()));
    service.listen(0, "127.0.0.1");
    await once(service, "listening");
    const prometheus = await startPrometheus(prometheusProgram, {
      jobs: {
        command: [],
        "query-api": [],
        audit: [],
        projection: [`127.0.0.1:${(service.address() as AddressInfo).port}`],
      },
      probes: [],
    });
    /** Runs the runbook's commands that create a certificate and reload nats-server. */
    const replaceCertificate = (days: string) => {
      execFileSync("sh", ["-ec", readScript().replaceAll("a.example", TLS_HOST).replace("825", days)], {
        cwd: folder,
        stdio: "pipe",
      });
      install();
      execFileSync("nats-server", ["--signal", `reload=${server.pid}`], { stdio: "pipe" });
      // The test does not wait ten minutes for the next reading.
      stopWatching();
      stopWatching = watch();
    };
    return {
      prometheus,
      scenarios: [
        {
          cause: "A nats-server got a certificate that is valid for ten days.",
          alerts: [{ alert: "CertificateExpires", labels: { server: `${TLS_HOST}:${port}` } }],
          create: async () => replaceCertificate("10"),
          followRunbook: async () => replaceCertificate("825"),
        },
      ],
      async stop() {
        stopWatching();
        service.close();
        prometheus.stop();
        server.kill("SIGKILL");
      },
    };
  },
};

function readScript(): string {
  const [, script] = /## CertificateExpires[\s\S]*?```sh\n([\s\S]*?)```/.exec(readFileSync(RUNBOOK, "utf8")) ?? [];
  if (script === undefined) throw new Error(`${RUNBOOK} contains no commands`);
  return script;
}
