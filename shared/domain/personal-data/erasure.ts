import type { z } from "zod";
import { DomainError } from "../domain-error.ts";
import type { erasureRecord } from "../events/erasure.ts";
import type { PersonalDataCategory } from "./person.ts";

/** Erasure of a person's data: the categories, the cause, and the operator's reason. */
export type Erasure = z.output<z.ZodObject<typeof erasureRecord>>;

/** Returns the erased categories after another erasure, in the order in which they were first erased. */
export function addErasedCategories(
  erasedCategories: readonly PersonalDataCategory[],
  { categories }: Erasure,
): PersonalDataCategory[] {
  return [...new Set([...erasedCategories, ...categories])];
}

/**
 * Decides an erasure. If the contact data is erased, no new personal data can be recorded, so an erasure of the same
 * categories changes nothing. Otherwise there may be new data, so the erasure is recorded again.
 *
 * @param erasedCategories categories that were erased before
 * @returns the erasure to record; undefined if it changes nothing
 */
export function decideErasure(
  erasedCategories: readonly PersonalDataCategory[],
  erasure: Erasure,
): Erasure | undefined {
  const isComplete = erasure.categories.every((category) => erasedCategories.includes(category));
  return isComplete && isErased({ erasedCategories }) ? undefined : erasure;
}

/** Returns true if a person's contact data is erased. The person can then not be changed. */
export function isErased({ erasedCategories }: { erasedCategories: readonly PersonalDataCategory[] }): boolean {
  return erasedCategories.includes("contact");
}

/**
 * Refuses a change of a person whose contact data is erased.
 *
 * @param objectName name of the person's aggregate in snake_case, for the error's code and message
 * @throws {DomainError} `<objectName>_erased`
 */
export function requireNotErased(
  person: { erasedCategories: readonly PersonalDataCategory[] },
  objectName: string,
): void {
  if (!isErased(person)) return;
  throw new DomainError(`${objectName}_erased`, `the ${objectName.replaceAll("_", " ")}'s personal data was erased`);
}
