import { createEmptyText, createRow, createTable } from "./dom.js";
import { shortenId } from "./format.js";

/**
 * Creates a table of a webhook delivery's attempts, or a text if there are no attempts.
 *
 * @param {(instant: string) => Node} createTime creates the element for the start of an attempt
 */
export function createAttempts({ id, attempts }, createTime) {
  if (attempts.length === 0) return createEmptyText("No attempt yet.");
  const titles = ["#", "Started", "Duration", "Result", "Response body"];
  const rows = attempts.map(({ number, startedAt, durationMs, statusCode, error, answer }) => {
    const duration = durationMs === null ? "unknown" : `${durationMs} ms`;
    const result = [statusCode, error].filter((part) => part !== null).join(", ") || "none";
    return createRow(String(number), [createTime(startedAt), duration, result, answer ?? ""]);
  });
  return createTable(`Attempts of ${shortenId(id)}`, titles, rows, { class: "blocks" });
}
