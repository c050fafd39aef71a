import { z } from "zod";

/** Matches the areas of the IANA time zone database, except legacy areas such as `Etc` and `US`. */
const CANONICAL_AREA_PATTERN = /^(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)\//;

/**
 * Current IANA names that the runtime lists only by their former names. For example, it lists Asia/Calcutta but not
 * Asia/Kolkata.
 */
const RENAMED_TIME_ZONES = [
  "Africa/Asmara",
  "America/Argentina/Buenos_Aires",
  "America/Argentina/Catamarca",
  "America/Argentina/Cordoba",
  "America/Argentina/Jujuy",
  "America/Argentina/Mendoza",
  "America/Atikokan",
  "America/Indiana/Indianapolis",
  "America/Kentucky/Louisville",
  "America/Nuuk",
  "Asia/Ho_Chi_Minh",
  "Asia/Kathmandu",
  "Asia/Kolkata",
  "Asia/Yangon",
  "Atlantic/Faroe",
  "Europe/Kyiv",
  "Pacific/Chuuk",
  "Pacific/Kanton",
  "Pacific/Pohnpei",
];

/**
 * Permitted time zones of a clinic: `Area/City` of the IANA database, and UTC. Abbreviations (EST), offsets and
 * legacy names (US/Eastern) are excluded, because runtimes interpret them differently.
 */
export const timeZones: ReadonlySet<string> = new Set([
  "UTC",
  ...Intl.supportedValuesOf("timeZone").filter((name) => CANONICAL_AREA_PATTERN.test(name)),
  ...RENAMED_TIME_ZONES,
]);

export const timeZone = z
  .string()
  .refine((name) => timeZones.has(name), "must be an IANA time zone such as Europe/Zurich, or UTC")
  .describe("IANA time zone, such as Europe/Zurich");
