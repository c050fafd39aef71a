import {
  allOrError,
  type ServerName,
  type ServerOptions,
  type Servers,
  startServers,
} from "../servers/servers.ts";
import { fixedPorts, freePorts } from "../setup/ports.ts";
import type { Component } from "../supervisor/component.ts";
import {
  type Environment,
  type Environments,
  type ServiceName,
  type ServiceUrls,
  serviceEnvironments,
  serviceUrls,
} from "./environment.ts";
import { upgradeReadModels } from "./read-models.ts";
import { serviceComponent } from "./services.ts";

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
    projection: serviceComponent("projection", env.projection, context),
    command: serviceComponent("command", env.command, context),
    queryApi: serviceComponent("queryApi", env.queryApi, context),
    audit: serviceComponent("audit", env.audit, context),
    gateway: serviceComponent("gateway", env.gateway, context),
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
    if (!servers.components.postgres.external)
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
  return { servers, urls: serviceUrls(ports), env, components: { ...servers.components, ...services }, stop };
}
