import { clinicStreams } from "../events/clinic.ts";

/**
 * Currencies in which a clinic can have prices: codes of ISO 4217 (list one, published by SIX), active as of
 * 2026-01-01. Funds, precious metals and units of account are excluded. The runtime's list is not used, because it
 * lacks VED and contains withdrawn codes.
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

export const currency = clinicStreams.events.ClinicRegistered.shape.currency.refine(
  (code) => currencies.has(code),
  "must be an active ISO 4217 currency",
);

export const locale = clinicStreams.events.ClinicRegistered.shape.locale.refine(
  isKnownLocale,
  "must be a known BCP 47 locale",
);

function isKnownLocale(tag: string): boolean {
  try {
    return Intl.DateTimeFormat.supportedLocalesOf(tag).length > 0;
  } catch (error) {
    // Intl throws a RangeError for a malformed tag.
    if (error instanceof RangeError) return false;
    throw error;
  }
}
