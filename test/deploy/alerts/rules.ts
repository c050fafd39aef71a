/**
 * Reads the alert rules and limits their times, so that the test takes minutes: `for`, windows of rates, and thresholds
 * of ages. ALERTS_LONGEST is the limit in seconds (default: 300).
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

/** Limits a time to ALERTS_LONGEST. Seconds. */
export const shorten = (seconds: number): number => Math.min(seconds, LONGEST_SECONDS);

/** The alert rules with limited times, as YAML. */
export const shortenedRules = readFileSync(RULES_FILE, "utf8")
  .replace(/\bfor: (\d+)m$/gm, (_, minutes) => `for: ${shorten(minutes * 60)}s`)
  .replace(/\[(\d+)m\]/g, (_, minutes) => `[${shorten(minutes * 60)}s]`)
  .replace(/(_seconds.* > )(\d+)$/gm, (_, start, seconds) => `${start}${shorten(Number(seconds))}`);

/** Limited value of `for` in seconds, by name of the alert. */
export const holdSeconds = new Map(
  rulesSchema
    .parse(load(shortenedRules))
    .groups.flatMap(({ rules }) => rules.map((rule) => [rule.alert, Number.parseInt(rule.for, 10)] as const)),
);
