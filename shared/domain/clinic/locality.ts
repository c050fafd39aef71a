import { DomainError } from "../domain-error.ts";
import { TIME_ZONE_RULE, timeZones } from "../time/time-zone.ts";

/**
 * @throws {DomainError} `invalid_timezone` if the name is neither `Area/City` of the IANA time zone database nor UTC
 */
export function requireTimeZone(name: string): void {
  if (!timeZones.has(name)) throw new DomainError("invalid_timezone", `timezone ${TIME_ZONE_RULE}`);
}

const currencies = new Set(Intl.supportedValuesOf("currency"));

/** @throws {DomainError} `invalid_currency` if the code is not in ISO 4217 */
export function requireCurrency(code: string): void {
  if (!currencies.has(code)) throw new DomainError("invalid_currency", `${code} is not an ISO 4217 currency`);
}

/** @throws {DomainError} `invalid_locale` if the tag is not a BCP 47 language tag known to the runtime */
export function requireLocale(tag: string): void {
  if (accepted(() => Intl.DateTimeFormat.supportedLocalesOf(tag)[0])) return;
  throw new DomainError("invalid_locale", `${tag} is not a known BCP 47 locale`);
}

/**
 * Returns whether Intl knows a value. Intl throws a RangeError for an invalid tag and returns nothing for an unknown
 * one.
 */
function accepted(lookUp: () => unknown): boolean {
  try {
    return lookUp() !== undefined;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}
