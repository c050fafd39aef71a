/** Functions that format names and values of events for display. */

/** Splits a name into words in lower case: `webhookEndpoint` → `webhook endpoint` */
export function formatName(name) {
  return name.replaceAll(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
}

/** Formats an event type: `AppointmentConfirmed` → `Appointment confirmed` */
export function formatType(type) {
  const words = formatName(type);
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Returns the category and the id in the name of a stream. */
export function splitStreamName(stream) {
  const at = stream.indexOf("-");
  return at < 0 ? [stream, ""] : [stream.slice(0, at), stream.slice(at + 1)];
}

/** Formats a value on one line. A missing value becomes a dash, and an object or a list becomes JSON. */
export function formatValue(value) {
  if (value === undefined) return "—";
  if (value === null) return "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
