import { DomainError } from "../domain-error.ts";
import { TIME_ZONE_RULE, timeZones } from "../time/time-zone.ts";

/** @throws {DomainError} `invalid_timezone` for what is not `Area/City` of the IANA time zone database, nor UTC */
export function requireTimeZone(name: string): void {
  if (!timeZones.has(name)) throw new DomainError("invalid_timezone", `timezone ${TIME_ZONE_RULE}`);
}

const currencies = new Set(Intl.supportedValuesOf("currency"));

/** @throws {DomainError} `invalid_currency` for what is not a code of ISO 4217 */
export function requireCurrency(code: string): void {
  if (!currencies.has(code)) throw new DomainError("invalid_currency", `${code} is not an ISO 4217 currency`);
}

/** @throws {DomainError} `invalid_locale` for what is not a BCP 47 language tag that the runtime knows */
export function requireLocale(tag: string): void {
  if (accepted(() => Intl.DateTimeFormat.supportedLocalesOf(tag)[0])) return;
  throw new DomainError("invalid_locale", `${tag} is not a known BCP 47 locale`);
}

/** Intl throws a RangeError for what it cannot read, and answers nothing for what it does not know. */
function accepted(ask: () => unknown): boolean {
  try {
    return ask() !== undefined;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}
