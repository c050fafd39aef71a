import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { load } from "js-yaml";
import { z } from "zod";
import { withClient } from "../../deploy/local/servers/database-roles.ts";
import { createRegistry } from "../../shared/metrics/registry.ts";
import { readDocumentedMetrics } from "../support/metrics.ts";
import { createMigratedDatabase } from "../support/migrated-database.ts";
import { findPromtool, runPromtool } from "../support/promtool.ts";
import { makeTestRoot } from "../support/stack.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const observabilityFolder = join(root, "deploy/observability");
const runbooks = readFileSync(join(root, "docs/operations/runbooks.md"), "utf8");

const alertSchema = z.strictObject({
  alert: z.string(),
  expr: z.string(),
  for: z.string().optional(),
  labels: z.strictObject({ severity: z.enum(["page", "ticket"]) }),
  annotations: z.strictObject({ summary: z.string(), runbook_url: z.string() }),
});
const rulesSchema = z.strictObject({
  groups: z.array(z.strictObject({ name: z.string(), rules: z.array(alertSchema) })),
});
const ruleTestsSchema = z.looseObject({
  tests: z.array(
    z.looseObject({
      alert_rule_test: z.array(z.looseObject({ alertname: z.string(), exp_alerts: z.array(z.unknown()) })),
    }),
  ),
});
const dashboardSchema = z.looseObject({
  uid: z.string(),
  title: z.string(),
  panels: z.array(
    z.looseObject({
      id: z.number(),
      title: z.string(),
      targets: z.array(z.looseObject({ expr: z.string() })).default([]),
    }),
  ),
});

const readObservabilityFile = (name: string) => readFileSync(join(observabilityFolder, name), "utf8");
const alerts = rulesSchema.parse(load(readObservabilityFile("alerts.yaml"))).groups.flatMap(({ rules }) => rules);
const dashboards = readdirSync(join(observabilityFolder, "dashboards")).map((name) =>
  dashboardSchema.parse(JSON.parse(readObservabilityFile(join("dashboards", name)))),
);
const dashboardExpressions = dashboards.flatMap(({ panels }) =>
  panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
);

/** Suffixes that Prometheus adds to the name of a histogram. */
const HISTOGRAM_SUFFIX = /_(bucket|sum|count)$/;

/** Labels that Prometheus adds to every metric, and the bucket label of histograms. */
const ADDED_LABELS = ["job", "instance", "le"];

/** Metrics of Prometheus itself, and of the blackbox exporter. */
const OTHER_METRICS = ["up", "probe_success"];

describe("alert rules and dashboards", () => {
  it("alert rules and dashboards use only metrics and labels that the services export", async () => {
    const labelsByMetric = await listExportedMetrics();
    const problems: string[] = [];
    for (const expression of [...alerts.map(({ expr }) => expr), ...dashboardExpressions]) {
      const selectors = listSelectors(expression);
      expect(selectors, expression).not.to.be.empty;
      for (const { metric, labels } of selectors) {
        const exportedLabels = labelsByMetric.get(metric) ?? labelsByMetric.get(metric.replace(HISTOGRAM_SUFFIX, ""));
        if (!exportedLabels) problems.push(`${metric} in ${expression}`);
        const unknownLabels = labels.filter((label) => !exportedLabels?.includes(label));
        if (exportedLabels && unknownLabels.length > 0) problems.push(`${metric}{${unknownLabels}} in ${expression}`);
      }
    }
    expect(problems).to.deep.equal([]);
  });

  it("each alert links to its section of docs/operations/runbooks.md, which states its severity", () => {
    const sections = [...runbooks.matchAll(/^## (\w+)\n\n\*\*(Page|Ticket)\.\*\*/gm)];
    expect(sections.map(([, alert, severity = ""]) => `${alert} ${severity.toLowerCase()}`)).to.have.members(
      alerts.map(({ alert, labels }) => `${alert} ${labels.severity}`),
    );
    for (const { alert, annotations } of alerts)
      expect(annotations.runbook_url).to.equal(`docs/operations/runbooks.md#${alert.toLowerCase()}`);
  });

  it("alerts.test.yaml shows for each alert when it fires and when it does not", () => {
    const { tests } = ruleTestsSchema.parse(load(readObservabilityFile("alerts.test.yaml")));
    const checks = tests.flatMap((test) => test.alert_rule_test);
    for (const { alert } of alerts) {
      const firingStates = checks
        .filter(({ alertname }) => alertname === alert)
        .map((check) => check.exp_alerts.length > 0);
      expect(firingStates, alert).to.include.members([true, false]);
    }
  });

  it("panels of the dashboards have unique ids and titles", () => {
    for (const { title, panels } of dashboards) {
      expect(new Set(panels.map(({ id }) => id)).size, title).to.equal(panels.length);
      expect(new Set(panels.map((panel) => panel.title)).size, title).to.equal(panels.length);
    }
  });

  it("the SQL statements in the runbooks are valid", async () => {
    const database = await createMigratedDatabase();
    const statements = [...runbooks.matchAll(/^```sql\n([\s\S]*?)^```/gm)].map(([, sql = ""]) => sql);
    expect(statements.length).to.be.at.least(2);
    await withClient(database.urls.projection, async (client) => {
      for (const statement of statements) await client.query(statement);
    });
  });

  it("promtool accepts the alert rules, the configurations and the expressions of the dashboards", async function () {
    const promtool = findPromtool();
    if (!promtool) return this.skip();
    const dashboardRules = dashboardExpressions.map((expr, index) => ({ record: `panel_${index}`, expr }));
    const dashboardFile = join(makeTestRoot(), "dashboards.json");
    writeFileSync(dashboardFile, JSON.stringify({ groups: [{ name: "dashboards", rules: dashboardRules }] }));
    // The configuration of compose.yaml expects the rules in its own folder.
    const composeFolder = makeTestRoot();
    cpSync(join(observabilityFolder, "alerts.yaml"), join(composeFolder, "alerts.yaml"));
    cpSync(join(root, "deploy/container/prometheus.yaml"), join(composeFolder, "prometheus.yaml"));
    for (const args of [
      ["check", "config", join(composeFolder, "prometheus.yaml")],
      ["check", "rules", join(observabilityFolder, "alerts.yaml"), dashboardFile],
      ["check", "config", join(observabilityFolder, "prometheus.yaml")],
      ["test", "rules", join(observabilityFolder, "alerts.test.yaml")],
    ]) {
      const { code, output } = await runPromtool(promtool, args);
      expect(code, output).to.equal(0);
    }
  });
});

/** Returns the labels of each exported metric, by name. */
async function listExportedMetrics(): Promise<Map<string, readonly string[]>> {
  const labelsByMetric = new Map(OTHER_METRICS.map((name): [string, readonly string[]] => [name, ADDED_LABELS]));
  for (const { name } of createRegistry().getMetricsAsArray()) labelsByMetric.set(name, ADDED_LABELS);
  for (const { name, labels } of await readDocumentedMetrics()) labelsByMetric.set(name, [...ADDED_LABELS, ...labels]);
  return labelsByMetric;
}

/** PromQL keywords. Functions are excluded in another way: they are followed by a parenthesis. */
const KEYWORDS = new Set(["and", "or", "unless", "by", "on", "without", "ignoring"]);

/** Lists the metrics in a PromQL expression, with the labels in their selectors. */
function listSelectors(expression: string): { metric: string; labels: string[] }[] {
  const withoutGroupings = expression.replace(/\b(by|on|without|ignoring) *\([^)]*\)/g, " ").replace(/\[\w+\]/g, " ");
  const matches = withoutGroupings.matchAll(/([a-z_][a-z_0-9]*)(?:\{([^}]*)\})?(?! *\(|[a-z_0-9])/g);
  return [...matches]
    .filter(([, word = ""]) => !KEYWORDS.has(word))
    .map(([, metric = "", matchers = ""]) => ({
      metric,
      labels: [...matchers.matchAll(/(\w+) *(?:=~|!~|!=|=)/g)].map(([, label = ""]) => label),
    }));
}
