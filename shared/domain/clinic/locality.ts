import { DomainError } from "../domain-error.ts";
import { TIME_ZONE_RULE, timeZones } from "../time/time-zone.ts";

/**
 * Requires UTC or an IANA time zone in the form `Area/City`.
 *
 * @throws {DomainError} `invalid_timezone`
 */
export function requireTimeZone(name: string): void {
  if (!timeZones.has(name)) throw new DomainError("invalid_timezone", `timezone ${TIME_ZONE_RULE}`);
}

/**
 * Currencies in which a clinic can have prices: the codes of ISO 4217 that are active as of 2026-01-01 (list one,
 * published by SIX), without funds, precious metals and units of account. The runtime's list lacks VED, and contains
 * withdrawn codes.
 */
export const currencies: ReadonlySet<string> = new Set(
  `
  AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY
  COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR
  ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK
  MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF
  SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU
  UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
`
    .trim()
    .split(/\s+/),
);

/**
 * Requires an active currency code of ISO 4217.
 *
 * @throws {DomainError} `invalid_currency`
 */
export function requireCurrency(code: string): void {
  if (!currencies.has(code)) throw new DomainError("invalid_currency", `${code} is not an active ISO 4217 currency`);
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
