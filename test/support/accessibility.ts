import fs from "node:fs";
import { fileURLToPath } from "node:url";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

/** Source of axe, minified for faster loading. */
const AXE_SOURCE = fs.readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

/** Expression that waits for all finite animations, such as the appearance of a dialog. */
const FINISH_ANIMATIONS = `Promise.all(document.getAnimations()
  .filter(({ effect }) => effect.getComputedTiming().endTime !== Infinity)
  .map(({ finished }) => finished.catch(() => undefined))).then(() => undefined)`;

/**
 * Checks the page with axe. Waits for animations first, because half-transparent text has too little contrast. To save
 * time, loads axe once per document and returns only violations.
 *
 * @returns one line per violated rule, with the HTML of the elements
 */
export async function findViolations(page: Page): Promise<string[]> {
  await page.evaluate(FINISH_ANIMATIONS);
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(AXE_SOURCE);
  const { violations } = await page.evaluate<Pick<AxeResults, "violations">>(
    "axe.run({ resultTypes: ['violations'] }).then(({ violations }) => ({ violations }))",
  );
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}
