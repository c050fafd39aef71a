import { createTable, h } from "./dom.js";
import { shortenId } from "./format.js";

/**
 * Creates the table of a webhook delivery's attempts.
 *
 * @param {{ id: string, attempts: object[] }} delivery
 * @param {(instant: string) => Node} createTime creates the element for the start of an attempt
 */
export function createAttemptTable({ id, attempts }, createTime) {
  const titles = ["#", "Started", "Duration", "Result", "Response body"];
  const rows = attempts.map(({ number, startedAt, durationMs, statusCode, error, answer }) =>
    h(
      "tr",
      {},
      h("td", {}, String(number)),
      h("td", {}, createTime(startedAt)),
      h("td", {}, durationMs === null ? "unknown" : `${durationMs} ms`),
      h("td", {}, [statusCode, error].filter((part) => part !== null).join(", ") || "none"),
      h("td", { class: "whole" }, answer ?? ""),
    ),
  );
  return createTable(`Attempts of ${shortenId(id)}`, titles, rows, { class: "blocks" });
}
