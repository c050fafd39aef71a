import type { z } from "zod";
import { DomainError } from "../domain-error.ts";
import type { erasureRecord } from "../events/erasure.ts";
import type { PersonalDataCategory } from "./person.ts";

/** Erasure of a person's data: the categories, the cause, and the operator's reason. */
export type Erasure = z.output<z.ZodObject<typeof erasureRecord>>;

/** Erased categories of a person's data, in the order in which they were first erased. */
export interface ErasedData {
  erasedCategories: PersonalDataCategory[];
  /**
   * Categories that were erased together with the contact data or later. No new data of these categories can be
   * recorded.
   */
  finalCategories: PersonalDataCategory[];
}

/** State of a person before any erasure. */
export const NOTHING_ERASED: ErasedData = { erasedCategories: [], finalCategories: [] };

/** Returns the erased categories after another erasure. */
export function addErasure(
  erasedData: ErasedData,
  { categories }: { categories: readonly PersonalDataCategory[] },
): ErasedData {
  const erasedCategories = [...new Set([...erasedData.erasedCategories, ...categories])];
  const finalCategories = isErased({ erasedCategories })
    ? [...new Set([...erasedData.finalCategories, ...categories])]
    : erasedData.finalCategories;
  return { erasedCategories, finalCategories };
}

/**
 * Returns true if an erasure must be recorded. An erasure of a final category changes nothing, because the category has
 * no new data. Other categories may have new data, so their erasure is recorded again.
 */
export function isErasureNeeded({ finalCategories }: ErasedData, { categories }: Pick<Erasure, "categories">): boolean {
  return categories.some((category) => !finalCategories.includes(category));
}

/** Returns true if a person's contact data is erased. The person can then not be changed. */
export function isErased({ erasedCategories }: Pick<ErasedData, "erasedCategories">): boolean {
  return erasedCategories.includes("contact");
}

/**
 * Refuses a change of a person whose contact data is erased.
 *
 * @param objectName name of the person's aggregate in snake_case, for the error's code and message
 * @throws {DomainError} `<objectName>_erased`
 */
export function requireNotErased(person: ErasedData, objectName: string): void {
  if (!isErased(person)) return;
  throw new DomainError(`${objectName}_erased`, describeErasedPerson(objectName));
}

/**
 * Refuses a command, because it contains a text about a person whose contact data is erased. The command is possible
 * without the text.
 *
 * @param objectName name of the person's aggregate in snake_case, for the error's code and message
 * @throws {DomainError} `<objectName>_erased`, which names the field
 */
export function refuseTextAboutErased(fieldName: string, objectName: string): never {
  const message = `must be omitted, because ${describeErasedPerson(objectName)}`;
  throw new DomainError(`${objectName}_erased`, `${fieldName} ${message}`, [{ path: fieldName, message }]);
}

function describeErasedPerson(objectName: string): string {
  return `the ${objectName.replaceAll("_", " ")}'s personal data was erased`;
}
