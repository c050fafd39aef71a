/** Areas of the IANA time zone database. `Etc`, `US` and the like are not places but old ways of naming. */
const AREA = /^(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)\//;

/** Names that IANA gives today, where the runtime's own list keeps to the former one (Asia/Calcutta). */
const RENAMED = [
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
 * The time zones that a clinic may be in: `Area/City` of the IANA database, and UTC. Abbreviations (EST), offsets and
 * legacy names (US/Eastern) are not among them: what they mean differs between runtimes and databases.
 */
export const timeZones: ReadonlySet<string> = new Set([
  "UTC",
  ...Intl.supportedValuesOf("timeZone").filter((name) => AREA.test(name)),
  ...RENAMED,
]);

/** What is said of a name that is not among them. */
export const TIME_ZONE_RULE = "must be an IANA time zone such as Europe/Zurich, or UTC";
