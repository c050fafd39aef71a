import { awaitAll, type ServerName, type ServerOptions, type Servers, startServers } from "../servers/servers.ts";
import { findFreePorts, readPorts } from "../setup/ports.ts";
import type { Component } from "../supervisor/component.ts";
import {
  buildServiceEnvironments,
  buildServiceUrls,
  type Environment,
  type Environments,
  mapServices,
  SERVICE_NAMES,
  type ServiceName,
  type ServiceUrls,
} from "./environment.ts";
import { prepareReadModels } from "./read-models.ts";
import { createServiceComponent } from "./services.ts";

export interface StackOptions extends Omit<ServerOptions, "ports" | "otherComponents"> {
  /** "fixed" uses the default ports and the port variables. "free" uses any free ports. */
  portMode: "fixed" | "free";
  /** Environment with the port variables and with settings for all services. */
  env: NodeJS.ProcessEnv;
  /** Settings of individual services. They override all other settings. */
  serviceEnv?: Partial<Record<ServiceName, Environment>>;
}

/** The running stack: three servers, four services and the gateway. */
export interface Stack {
  servers: Servers;
  urls: ServiceUrls;
  /** Environment of each service. */
  env: Environments;
  /** All components by name. */
  components: Record<ServerName | ServiceName, Component>;
  /** Stops the services, then the servers. */
  stop(): Promise<void>;
}

/**
 * Starts the whole stack in this order:
 *
 *     1. the servers
 *     2. the gateway and the projection service
 *     3. the command, query API and audit services
 *
 * Before step 2, the migrations are applied. If an earlier release created the read models in the embedded Postgres,
 * they are also rebuilt. If a component fails, all other components are stopped.
 *
 * @throws {SetupError} one line, followed by the last lines of output if a component failed
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { progress, signal } = options;
  const ports = options.portMode === "fixed" ? readPorts(options.env) : await findFreePorts();
  const servers = await startServers({ ...options, ports, otherComponents: SERVICE_NAMES });
  const env = buildServiceEnvironments({
    ports,
    secrets: servers.root.secrets,
    servers,
    inheritedEnv: options.env,
    overrides: options.serviceEnv,
  });
  const services = mapServices((name) => createServiceComponent(name, env[name], servers.context));
  const start = (name: ServiceName) =>
    progress.runStep(`${services[name].name} 127.0.0.1:${ports[name]}`, () => services[name].start());
  const stop = async () => {
    const { projection, ...otherServices } = services;
    await Promise.all(Object.values(otherServices).map((service) => service.stop()));
    await projection.stop();
    await servers.stop();
  };
  try {
    await prepareReadModels({
      databaseUrl: servers.databaseUrls.projection,
      eventstoreUrl: servers.eventstoreUrl,
      personalDataKeys: servers.root.secrets.personalDataKeys,
      shouldRebuild: !servers.components.postgres.isExternal,
      progress,
      signal,
    });
    await awaitAll([start("gateway"), start("projection")]);
    await awaitAll([start("command"), start("queryApi"), start("audit")]);
  } catch (error) {
    await stop();
    throw error;
  }
  const components = { ...servers.components, ...services };
  return { servers, urls: buildServiceUrls(ports), env, components, stop };
}
