import { categories } from "../../../shared/domain/events/catalog.ts";
import { word } from "../../../shared/domain/events/fields.ts";

const names = new Set<string>(categories.map(({ name }) => name));

/** The name of a stream of the catalog, `<category>-<id>`. */
export const streamField = word(300).refine(
  (name) => names.has(categoryOf(name)) && name.includes("-"),
  "must name a stream, such as appointment-<id>",
);

export function categoryOf(stream: string): string {
  return stream.slice(0, Math.max(0, stream.indexOf("-")));
}
