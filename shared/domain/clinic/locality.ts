import { DomainError } from "../domain-error.ts";
import { TIME_ZONE_RULE, timeZones } from "../time/time-zone.ts";

/**
 * Requires a permitted time zone: a name of the form `Area/City` of the IANA time zone database, or UTC.
 *
 * @throws {DomainError} `invalid_timezone`
 */
export function requireTimeZone(name: string): void {
  if (!timeZones.has(name)) throw new DomainError("invalid_timezone", `timezone ${TIME_ZONE_RULE}`);
}

const currencies = new Set(Intl.supportedValuesOf("currency"));

/**
 * Requires a currency code of ISO 4217.
 *
 * @throws {DomainError} `invalid_currency`
 */
export function requireCurrency(code: string): void {
  if (!currencies.has(code)) throw new DomainError("invalid_currency", `${code} is not an ISO 4217 currency`);
}

/**
 * Requires a BCP 47 language tag that the runtime knows.
 *
 * @throws {DomainError} `invalid_locale`
 */
export function requireLocale(tag: string): void {
  try {
    if (Intl.DateTimeFormat.supportedLocalesOf(tag).length > 0) return;
  } catch (error) {
    // Intl throws a RangeError for a malformed tag.
    if (!(error instanceof RangeError)) throw error;
  }
  throw new DomainError("invalid_locale", `${tag} is not a known BCP 47 locale`);
}
