/**
 * Reads the alert rules. Long times of the rules are shortened for the test: `for`, windows of rates, and thresholds of
 * ages. ALERTS_LONGEST is the longest time that stays, in seconds (default: 300).
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { load } from "js-yaml";
import { z } from "zod";

const RULES_FILE = fileURLToPath(new URL("../../../deploy/observability/alerts.yaml", import.meta.url));

const LONGEST_SECONDS = Number(process.env.ALERTS_LONGEST ?? 300);

const rulesSchema = z.object({
  groups: z.array(z.object({ rules: z.array(z.object({ alert: z.string(), for: z.string().default("0s") })) })),
});

/** Returns a time of a rule as it is in the test. Seconds. */
export const shorten = (seconds: number): number => Math.min(seconds, LONGEST_SECONDS);

/** The rules with shortened times, as YAML. */
export const shortenedRules = readFileSync(RULES_FILE, "utf8")
  .replace(/\bfor: (\d+)m$/gm, (_, minutes) => `for: ${shorten(minutes * 60)}s`)
  .replace(/\[(\d+)m\]/g, (_, minutes) => `[${shorten(minutes * 60)}s]`)
  .replace(/(_seconds.* > )(\d+)$/gm, (_, start, seconds) => `${start}${shorten(Number(seconds))}`);

/** Time in seconds for which the condition of an alert must hold, by name of the alert. */
export const holdSeconds = new Map(
  rulesSchema
    .parse(load(shortenedRules))
    .groups.flatMap(({ rules }) => rules.map((rule) => [rule.alert, Number.parseInt(rule.for, 10)] as const)),
);
