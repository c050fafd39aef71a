import { createHint, getElement, h } from "./dom.js";
import { request } from "./session.js";

const HOUR_MS = 3_600_000;
const HOURS = 24;

/** Maximum number of requests for one chart. Each request returns up to 100 deliveries. */
const MAX_PAGES = 3;

/** Number of requests and removals of the chart. Only the latest requested chart is shown. */
let count = 0;

/** Shows how an endpoint's deliveries of the last 24 hours ended, with a column for each hour. */
export async function showOutcomes(endpointId) {
  count += 1;
  const current = count;
  const startMs = Date.now() - HOURS * HOUR_MS;
  const hours = Array.from({ length: HOURS }, () => ({ delivered: 0, failed: 0 }));
  const query = { limit: 100, from: new Date(startMs).toISOString(), cursor: undefined };
  for (let page = 0; page < MAX_PAGES && query.cursor !== null; page += 1) {
    const path = `/webhook-endpoints/${endpointId}/deliveries`;
    const { deliveries, page: next } = await request("GET", path, { query, isAutomatic: true });
    for (const { status, createdAt } of deliveries) {
      const hour = hours[Math.min(HOURS - 1, Math.floor((Date.parse(createdAt) - startMs) / HOUR_MS))];
      if (status in hour) hour[status] += 1;
    }
    query.cursor = next.nextCursor;
  }
  if (current === count) render(hours, query.cursor === null);
}

/** Removes the chart. */
export function clearOutcomes() {
  count += 1;
  getElement("outcomes").replaceChildren();
}

function render(hours, isComplete) {
  const sum = (status) => hours.reduce((total, hour) => total + hour[status], 0);
  const text = `Last 24 hours: ${sum("delivered")} delivered, ${sum("failed")} failed${isComplete ? "" : " of the latest 300"}`;
  const highest = Math.max(1, ...hours.map(({ delivered, failed }) => delivered + failed));
  const createPart = (hour, status) => {
    const part = h("span", { class: status });
    part.style.height = `${(100 * hour[status]) / highest}%`;
    return part;
  };
  const columns = hours.map((hour) => h("span", {}, createPart(hour, "failed"), createPart(hour, "delivered")));
  getElement("outcomes").replaceChildren(
    h("div", { class: "outcomes", role: "img", "aria-label": text }, ...columns),
    createHint(`${text}.`),
  );
}
