import {
  allOrError,
  type ServerName,
  type ServerOptions,
  type Servers,
  startServers,
} from "../servers/servers.ts";
import { fixedPorts, freePorts } from "../setup/ports.ts";
import type { Part } from "../supervisor/part.ts";
import {
  type Environment,
  type Environments,
  type ServiceName,
  type ServiceUrls,
  serviceEnvironments,
  serviceUrls,
} from "./environment.ts";
import { upgradeReadModels } from "./read-models.ts";
import { servicePart } from "./services.ts";

export interface StackOptions extends Omit<ServerOptions, "ports" | "portsNeeded"> {
  /** The default ports (each moved by its variable), or free ones. */
  ports: "fixed" | "free";
  /** The environment that chooses ports and passes settings through. */
  env: NodeJS.ProcessEnv;
  /** Settings of one service, over all others. */
  serviceEnv?: Partial<Record<ServiceName, Environment>>;
}

/** Everything, running: three servers, four services, one gateway. */
export interface Stack {
  servers: Servers;
  urls: ServiceUrls;
  /** The environment that each service was started with. */
  env: Environments;
  /** Each part by its name, to stop, kill and start it. */
  parts: Record<ServerName | ServiceName, Part>;
  /** Stops everything, services first. */
  stop(): Promise<void>;
}

/**
 * Starts the whole stack: the servers, then the gateway and projection, which applies the migrations, then command,
 * query-api and audit. Read models that an earlier release left in our own database are rebuilt first. When one fails, those that were started are stopped again.
 *
 * @throws {SetupError} one readable line, followed by the last lines of a part that failed
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const ports = options.ports === "fixed" ? fixedPorts(options.env) : await freePorts();
  const portsNeeded = ["gateway", "command", "queryApi", "audit", "projection"] as const;
  const servers = await startServers({ ...options, ports, portsNeeded });
  const { context } = servers;
  const { secrets } = servers.root;
  const env = serviceEnvironments({
    ports,
    secrets,
    servers,
    inherited: options.env,
    extra: options.serviceEnv,
  });
  const services = {
    projection: servicePart("projection", env.projection, context),
    command: servicePart("command", env.command, context),
    queryApi: servicePart("queryApi", env.queryApi, context),
    audit: servicePart("audit", env.audit, context),
    gateway: servicePart("gateway", env.gateway, context),
  };
  const start = (name: ServiceName) =>
    options.progress.step(`${services[name].name} 127.0.0.1:${ports[name]}`, () => services[name].start());
  const stop = async () => {
    await Promise.all([
      services.gateway.stop(),
      services.queryApi.stop(),
      services.command.stop(),
      services.audit.stop(),
    ]);
    await services.projection.stop();
    await servers.stop();
  };
  try {
    if (!servers.parts.postgres.external)
      await upgradeReadModels(
        { databaseUrl: servers.databaseUrls.projection, eventstoreUrl: servers.eventstoreUrl },
        options.progress,
        options.signal,
      );
    await allOrError([start("gateway"), start("projection")]);
    await allOrError([start("command"), start("queryApi"), start("audit")]);
  } catch (error) {
    await stop();
    throw error;
  }
  return { servers, urls: serviceUrls(ports), env, parts: { ...servers.parts, ...services }, stop };
}
