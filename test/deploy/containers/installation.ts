import { randomBytes } from "node:crypto";
import { appendFileSync, cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request as sendRequest } from "node:https";
import path from "node:path";
import { PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { eventually } from "../../support/eventually.ts";
import { readYaml } from "../packages/containers.ts";
import { type CommandResult, type RunOptions, run, runChecked } from "../process.ts";
import { CACHE_FOLDER, type Engine, INSTALLATION_PREFIX } from "./engine.ts";

export const PUBLIC_HOST = "clinic.localhost";

export interface Response {
  status: number;
  headers: NodeJS.Dict<string | string[]>;
  body: string;
}

export interface RequestOptions {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
}

/** The product in containers, installed as deploy/container/README.md describes. */
export interface Installation {
  folder: string;
  /** Runs docker-compose. Returns the exit code instead of throwing. */
  tryCompose(args: readonly string[], options?: RunOptions): Promise<CommandResult>;
  /** Runs docker-compose. @throws {Error} if the exit code is not 0 */
  compose(args: readonly string[], options?: RunOptions): Promise<string>;
  /** Runs the executable `clinic`. @throws {Error} if the exit code is not 0 */
  clinic(...args: string[]): Promise<string>;
  /**
   * Runs shell commands that call `docker-compose`. `up` recreates containers even if their image has not changed.
   *
   * @throws {Error} if the exit code is not 0
   */
  recreateBy(commands: string): Promise<string>;
  /** Sends an HTTPS request to the ingress. */
  request(path: string, options?: RequestOptions): Promise<Response>;
  waitUntilReady(): Promise<void>;
  /** Returns the name of a service's container. */
  container(service: string): string;
}

/** Copies the files, and creates the secrets and `.env`. Does not start containers. */
export async function install(engine: Engine, compose: string): Promise<Installation> {
  const root = mkdtempSync(path.join(CACHE_FOLDER, INSTALLATION_PREFIX));
  for (const name of ["container", "observability", "kubernetes"])
    cpSync(path.join(PROJECT_FOLDER, "deploy", name), path.join(root, name), { recursive: true });
  const folder = path.join(root, "container");
  await runChecked("./create-secrets.sh", [], { cwd: folder });
  writeFileSync(path.join(folder, "secrets/portal-jwt-secret"), randomBytes(32).toString("hex"), { mode: 0o644 });
  const exampleEnv = readFileSync(path.join(folder, "example.env"), "utf8");
  writeFileSync(path.join(folder, ".env"), exampleEnv.replace("clinic.example.com", PUBLIC_HOST));
  appendFileSync(path.join(folder, ".env"), `CLINIC_IMAGE=${PRODUCT_IMAGE}\n`);

  const tryCompose = (args: readonly string[], options: RunOptions = {}) =>
    run(compose, args, { env: engine.env, cwd: folder, ...options });
  const composeChecked = (args: readonly string[], options: RunOptions = {}) =>
    runChecked(compose, args, { env: engine.env, cwd: folder, ...options });
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
  const request = (url: string, options: RequestOptions = {}) => send(agent, url, options);
  return {
    folder,
    tryCompose,
    compose: composeChecked,
    clinic: (...args) => composeChecked(["exec", "-T", "clinic", "clinic", ...args]),
    recreateBy: (commands) =>
      runChecked("bash", ["-ec", `${RECREATING_COMPOSE}\n${commands}`], {
        env: { ...engine.env, COMPOSE_PROGRAM: compose },
        cwd: folder,
      }),
    request,
    async waitUntilReady() {
      const isReady = async () => {
        const statuses = await Promise.all(
          SERVICES.map(async (service) => {
            const script =
              "fetch('http://127.0.0.1:8080/health/ready').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))";
            return (await tryCompose(["exec", "-T", service, "node", "-e", script])).code;
          }),
        );
        return statuses.every((status) => status === 0);
      };
      await eventually("all services are ready", isReady, 300_000);
      const isServed = () =>
        request("/.well-known/jwks.json").then(
          ({ status }) => status === 200,
          () => false,
        );
      await eventually("the ingress serves requests", isServed, 120_000);
    },
    container: (service) => `clinic-${service}-1`,
  };
}

const RECREATING_COMPOSE = `docker-compose() {
  if [ "$1" = up ]; then shift; set -- up --force-recreate "$@"; fi
  command "$COMPOSE_PROGRAM" "$@"
}`;

/** Services that serve HTTP and have a health check. */
export const SERVICES = ["projection", "webhooks", "command", "query-api", "audit"] as const;

export const PRODUCT_IMAGE = "localhost/clinic-service:latest";

/** Returns the image names in compose.yaml, except the product's image and the images of the given services. */
export function readImages(exceptServices: readonly string[]): string[] {
  const { services } = readYaml("container/compose.yaml")[0] as { services: Record<string, { image: string }> };
  const images = Object.entries(services).filter(([name]) => !exceptServices.includes(name));
  const names = images.map(([, { image }]) => image.replace(/^\$\{\w+:-(.*)\}$/, "$1"));
  return [...new Set(names)].filter((name) => name !== PRODUCT_IMAGE);
}

const REQUEST_TIMEOUT_MS = 30_000;

function send(agent: Agent, url: string, { method = "GET", headers = {}, body }: RequestOptions): Promise<Response> {
  return new Promise((resolve, reject) => {
    const request = sendRequest(
      {
        host: "127.0.0.1",
        servername: PUBLIC_HOST,
        path: url,
        method,
        agent,
        timeout: REQUEST_TIMEOUT_MS,
        headers: { host: PUBLIC_HOST, ...headers },
      },
      (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part) => {
          text += part;
        });
        response.on("error", reject);
        response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }));
      },
    );
    request.on("timeout", () => request.destroy(new Error("no response in time")));
    request.on("error", reject);
    request.end(body);
  });
}
