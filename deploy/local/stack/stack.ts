import {
  awaitAll,
  type ServerName,
  type ServerOptions,
  type Servers,
  startServers,
} from "../servers/servers.ts";
import { findFreePorts, readPorts } from "../setup/ports.ts";
import type { Component } from "../supervisor/component.ts";
import {
  buildServiceEnvironments,
  buildServiceUrls,
  type Environment,
  type Environments,
  type ServiceName,
  type ServiceUrls,
} from "./environment.ts";
import { upgradeReadModels } from "./read-models.ts";
import { createServiceComponent } from "./services.ts";

export interface StackOptions extends Omit<ServerOptions, "ports" | "portsNeeded"> {
  /** "fixed": the default ports, changed by the variables; "free": any free ports. */
  ports: "fixed" | "free";
  /** Environment with port variables and settings for all services. */
  env: NodeJS.ProcessEnv;
  /** Settings of one service that override all others. */
  serviceEnv?: Partial<Record<ServiceName, Environment>>;
}

/** The running stack: three servers, four services and the gateway. */
export interface Stack {
  servers: Servers;
  urls: ServiceUrls;
  /** Environment of each service. */
  env: Environments;
  /** Components by name, to stop, kill and start them. */
  components: Record<ServerName | ServiceName, Component>;
  /** Stops the services, then the servers. */
  stop(): Promise<void>;
}

/**
 * Starts the whole stack: the servers, then the gateway and projection, which applies the migrations, then command,
 * query-api and audit. Rebuilds read models of an earlier release first. If a component fails, all others are stopped.
 *
 * @throws {SetupError} one line, followed by the last lines of output if a component failed
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const ports = options.ports === "fixed" ? readPorts(options.env) : await findFreePorts();
  const otherComponents = ["gateway", "command", "queryApi", "audit", "projection"] as const;
  const servers = await startServers({ ...options, ports, otherComponents });
  const { context } = servers;
  const { secrets } = servers.root;
  const env = buildServiceEnvironments({
    ports,
    secrets,
    servers,
    inherited: options.env,
    overrides: options.serviceEnv,
  });
  const services = {
    projection: createServiceComponent("projection", env.projection, context),
    command: createServiceComponent("command", env.command, context),
    queryApi: createServiceComponent("queryApi", env.queryApi, context),
    audit: createServiceComponent("audit", env.audit, context),
    gateway: createServiceComponent("gateway", env.gateway, context),
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
    if (!servers.components.postgres.isExternal)
      await upgradeReadModels(
        { databaseUrl: servers.databaseUrls.projection, eventstoreUrl: servers.eventstoreUrl },
        options.progress,
        options.signal,
      );
    await awaitAll([start("gateway"), start("projection")]);
    await awaitAll([start("command"), start("queryApi"), start("audit")]);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    servers,
    urls: buildServiceUrls(ports),
    env,
    components: { ...servers.components, ...services },
    stop,
  };
}
