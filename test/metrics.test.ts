import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { startGateway } from "../deploy/local/gateway/gateway-server.ts";
import { type AuditWorld, requestAudit, startAuditWorld } from "./command/audit/world.ts";
import { type ConnectProxy, startConnectProxy } from "./support/connect-proxy.ts";
import { eventually } from "./support/eventually.ts";
import { type MetricFamily, parseMetrics, readDocumentedMetrics, readSample } from "./support/metrics.ts";
import { createPartnerWorld, type PartnerWorld, sendRequest } from "./support/partner.ts";
import { type PartnerApi, startPartnerApi } from "./support/partner-api.ts";
import { findPromtool, runPromtool } from "./support/promtool.ts";
import { startReceiver } from "./support/receiver.ts";
import { useResource } from "./support/resources.ts";

const SERVICES = ["audit", "command", "projection", "query-api"] as const;
type Service = (typeof SERVICES)[number];

/** Matches prom-client's default metrics about the process, which the document does not list. */
const PROCESS_METRICS = /^(process|nodejs)_/;

const THREE_DAYS_MS = 3 * 24 * 60 * 60 * 1_000;

/** Metrics of the projection service that appear only after its roles have started. */
const REPORTED_LAST = [
  "projection_events_total",
  "projection_position",
  "projection_lag_seconds",
  "server_certificate_expiry_timestamp_seconds",
  "webhook_oldest_due_delivery_age_seconds",
];

/** Labels that Prometheus's text format adds. */
const FORMAT_LABELS = new Set(["le", "quantile"]);

describe("the metrics of all services", () => {
  let api: PartnerApi;
  let auditWorld: AuditWorld;
  const receiver = useResource(startReceiver);
  let egressProxy: ConnectProxy;
  let partner: PartnerWorld;
  let appointmentId: string;

  before(async () => {
    egressProxy = await startConnectProxy(receiver.port);
    egressProxy.setReaction(403);
    const webhookSettings = {
      WEBHOOK_ALLOW_LOOPBACK: "true",
      WEBHOOK_EGRESS_PROXY_URL: `http://127.0.0.1:${egressProxy.port}`,
    };
    [api, auditWorld] = await Promise.all([
      startPartnerApi({ projectionEnv: { ROLES: "projectors,relay,webhooks", ...webhookSettings } }),
      startAuditWorld(),
    ]);
    partner = await createPartnerWorld(api.command, "sandbox");
    const endpoint = { url: receiver.url, events: ["appointment.created"] };
    const endpointResponse = await send("POST", "/webhook-endpoints", {}, endpoint);
    expect(endpointResponse.status).to.equal(201);
    const { animalId, branchId } = partner;
    const appointment = { animalId, branchId, scheduledAt: new Date(Date.now() + THREE_DAYS_MS).toISOString() };
    const response = await send("POST", "/appointments", { "Idempotency-Key": randomUUID() }, appointment);
    expect(response.status).to.equal(201);
    appointmentId = response.body.appointment.id;
    await eventually("the webhook", () => receiver.requests.length > 0);
    await eventually("the first complete report of the projection service", async () => {
      const metrics = await scrape("projection");
      return REPORTED_LAST.every((name) => metrics.get(name)?.samples.length);
    });
  });

  const getUrl = (service: Service) =>
    ({ audit: auditWorld.url, command: api.command.url, projection: api.projectionUrl, "query-api": api.queryUrl })[
      service
    ];
  const scrape = async (service: Service) => parseMetrics(await (await fetch(`${getUrl(service)}/metrics`)).text());
  const send = (method: "GET" | "POST", path: string, headers: Record<string, string> = {}, body?: unknown) => {
    const url = `${method === "GET" ? api.queryUrl : api.command.url}/sandbox/v1${path}`;
    return sendRequest(method, url, { ...partner.headers, ...headers }, body);
  };
  /** Waits until a sample of a metric has at least the given value. */
  const waitForSample = (service: Service, name: string, labels: Record<string, string>, minimum = 1) =>
    eventually(`${name} of ${service}`, async () => (readSample(await scrape(service), name, labels) ?? -1) >= minimum);

  it("docs/operations/monitoring.md lists exactly the metrics of each service with type, labels and meaning", async () => {
    const servedMetrics = new Map<string, MetricFamily & { services: Service[] }>();
    for (const service of SERVICES) {
      for (const [name, family] of await scrape(service)) {
        if (PROCESS_METRICS.test(name)) continue;
        const services = [...(servedMetrics.get(name)?.services ?? []), service];
        const labels = [...new Set([...(servedMetrics.get(name)?.labels ?? []), ...family.labels])];
        servedMetrics.set(name, { ...family, labels, services });
      }
    }
    const rows = [...servedMetrics].map(([name, { type, labels, services, help }]) => ({
      name,
      type,
      help,
      labels: labels.filter((label) => !FORMAT_LABELS.has(label)).sort(),
      services: services.length === SERVICES.length ? "all" : services.join(", "),
    }));
    expect(sortByName(rows)).to.deep.equal(sortByName(await readDocumentedMetrics()));
  });

  it("each service reports the delay of its event loop, its CPU time and its memory", async () => {
    for (const service of SERVICES) {
      const metrics = await scrape(service);
      for (const name of ["nodejs_eventloop_lag_p99_seconds", "process_cpu_seconds_total"])
        expect(readSample(metrics, name, {}), `${name} of ${service}`).to.be.a("number");
      expect(readSample(metrics, "process_resident_memory_bytes", {}), service).to.be.above(1e6);
    }
  });

  it("requests are counted by operation and status, and their durations by operation", async () => {
    const operation = "partner.createPartnerAppointment";
    const command = await scrape("command");
    expect(readSample(command, "http_requests_total", { operation, status: "201" })).to.equal(1);
    expect(readSample(command, "http_request_duration_seconds_count", { operation })).to.equal(1);
    expect(readSample(command, "http_request_duration_seconds_sum", { operation })).to.be.above(0);
    await fetch(`${api.queryUrl}/api/v1/services`);
    await requestAudit(`${auditWorld.url}/audit/v1/me`);
    await waitForSample("query-api", "http_requests_total", { operation: "portal.listServices", status: "401" });
    await waitForSample("audit", "http_requests_total", { operation: "audit.me", status: "401" });
  });

  it("unknown paths and unsupported methods share one label, and monitoring is not counted", async () => {
    const ids = Array.from({ length: 20 }, () => randomUUID());
    for (const id of ids) {
      await fetch(`${api.queryUrl}/${id}`);
      await send("GET", `/webhook-endpoints/${id}/deliveries`);
      await fetch(`${api.queryUrl}/sandbox/v1/webhook-endpoints/${id}/deliveries`, { method: "PUT" });
      await fetch(`${api.queryUrl}/health/live?${id}`);
    }
    const metrics = await scrape("query-api");
    expect(readSample(metrics, "http_requests_total", { operation: "none", status: "404" })).to.equal(20);
    expect(readSample(metrics, "http_requests_total", { operation: "none", status: "405" })).to.equal(20);
    const operations = listLabelValues(metrics, "http_requests_total", "operation");
    expect(operations.filter((operation) => !/^((partner|portal)\.\w+|docs|none)$/.test(operation))).to.deep.equal([]);
    expect(operations).to.include("partner.listWebhookDeliveries");
  });

  it("appends and reads of the event log are counted", async () => {
    const metrics = await scrape("command");
    expect(readSample(metrics, "event_log_events_total", { request: "append" })).to.be.at.least(2);
    expect(readSample(metrics, "event_log_events_total", { request: "read" })).to.be.at.least(1);
    const labels = { request: "append", outcome: "ok" };
    expect(readSample(metrics, "event_log_request_duration_seconds_count", labels)).to.be.at.least(2);
  });

  it("refused requests are counted by rate limit", async () => {
    const limitedPartner = await createPartnerWorld(api.command, "sandbox", { rateLimitPerMinute: 1 });
    const refusals = { limit: "installation" };
    expect(readSample(await scrape("query-api"), "rate_limit_refusals_total", refusals)).to.equal(0);
    await eventually("a refusal", async () => {
      const response = await fetch(`${api.queryUrl}/sandbox/v1/appointments`, { headers: limitedPartner.headers });
      return response.status === 429;
    });
    expect(readSample(await scrape("query-api"), "rate_limit_refusals_total", refusals)).to.equal(1);
  });

  it("the projection service reports its roles, attempts and deliveries", async () => {
    for (const role of ["projectors", "relay"]) await waitForSample("projection", "projection_leader", { role });
    for (const role of ["projectors", "relay", "webhooks"])
      await waitForSample("projection", "projection_lag_seconds", { role }, 0);
    await waitForSample("projection", "webhook_attempts_total", { outcome: "delivered" });
    await waitForSample("projection", "webhook_attempt_duration_seconds_count", {});
    await waitForSample("projection", "webhook_oldest_due_delivery_age_seconds", { endpoints: "healthy" }, 0);
  });

  it("attempts that fail because of the egress proxy are counted", async () => {
    const endpoint = { url: "https://93.184.216.34/in", events: ["appointment.created"] };
    const { status, body } = await send("POST", "/webhook-endpoints", {}, endpoint);
    expect(status).to.equal(201);
    await eventually("the read models", async () => {
      const response = await send("POST", `/webhook-endpoints/${body.endpoint.id}/test`);
      return response.status === 202;
    });
    await waitForSample("projection", "webhook_egress_proxy_failures_total", {});
    expect(egressProxy.requests[0]?.target).to.equal("93.184.216.34:443");
  });

  it("each pool of connections to Postgres is reported by name", async () => {
    const metrics = await scrape("query-api");
    const pools = listLabelValues(metrics, "postgres_pool_connections", "pool");
    expect(pools).to.have.members(["clinic-query-api", "clinic-query-api limits"]);
    expect(readSample(metrics, "postgres_pool_max_connections", { pool: "clinic-query-api" })).to.equal(6);
  });

  it("promtool finds no problem in the metrics of any service", async function () {
    const promtool = findPromtool();
    if (!promtool) return this.skip();
    for (const service of SERVICES) {
      const text = await (await fetch(`${getUrl(service)}/metrics`)).text();
      const result = await runPromtool(promtool, ["check", "metrics"], text);
      expect(result, service).to.deep.equal({ code: 0, output: "" });
    }
  });

  it("no metric contains an id", async () => {
    const ids = [partner.clinicId, partner.applicationId, partner.branchId, partner.animalId, appointmentId];
    for (const service of SERVICES) {
      const text = await (await fetch(`${getUrl(service)}/metrics`)).text();
      for (const id of ids) expect(text.includes(id), service).to.equal(false);
      expect(text, service).not.to.match(/[0-9a-f]{8}-[0-9a-f]{4}-/);
    }
  });

  it("the gateway of the local stack does not serve the metrics of any service", async () => {
    const [command, queryApi, audit] = [api.command.url, api.queryUrl, auditWorld.url];
    const upstreamUrls = { command, queryApi, audit };
    const gateway = await startGateway({ host: "127.0.0.1", port: 0, upstreamUrls, log: () => undefined });
    for (const path of ["/metrics", "/api/v1/metrics", "/audit/metrics", "/sandbox/v1/metrics"]) {
      for (const method of ["GET", "POST"]) {
        const { status } = await fetch(gateway.url + path, { method });
        expect(status, `${method} ${path}`).to.equal(404);
      }
    }
    await gateway.close();
  });

  it("a request that a proxy forwarded gets no metrics", async () => {
    for (const service of SERVICES) {
      for (const headers of [{ "X-Forwarded-For": "192.0.2.1" }, { Forwarded: "for=192.0.2.1" }]) {
        const response = await fetch(`${getUrl(service)}/metrics`, { headers });
        const { error } = (await response.json()) as { error: string };
        expect([response.status, error], service).to.deep.equal([404, "not_found"]);
      }
    }
  });
});

const sortByName = <Row extends { name: string }>(rows: readonly Row[]) =>
  [...rows].sort((first, second) => first.name.localeCompare(second.name));

function listLabelValues(families: Map<string, MetricFamily>, name: string, label: string): string[] {
  return [...new Set((families.get(name)?.samples ?? []).map(({ labels }) => labels[label] ?? ""))];
}
