import type { z } from "zod";
import type { ErrorDetail } from "../../shared/domain/domain-error.ts";
import { inPlainWords } from "../../shared/domain/validation/plain-words.ts";

/** So many things wrong are told; a body of nothing but unknown fields has no more to say. */
const MOST_TOLD = 20;

/** What zod found wrong, for the caller: each field by its path, unknown ones each by name. */
export function toDetails(error: z.ZodError): ErrorDetail[] {
  const details = error.issues.flatMap((issue) => {
    if (issue.code !== "unrecognized_keys") {
      return [{ path: issue.path.join(".") || "body", message: inPlainWords(issue) }];
    }
    return issue.keys.map((key) => ({
      path: [...issue.path, key].join("."),
      message: "is not a known field",
    }));
  });
  return details.slice(0, MOST_TOLD);
}
