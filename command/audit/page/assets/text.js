/** Functions that format values for display. */

/** Splits a name into words in lower case: `webhookDelivery` → `webhook delivery` */
export function formatName(name) {
  return name.replaceAll(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
}

/** Formats an event type: `AppointmentConfirmed` → `Appointment confirmed` */
export function formatType(type) {
  const words = formatName(type);
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Formats a time: `2026-05-04T08:00:00.000Z` → `2026-05-04 08:00:00.000` */
export function formatTime(instant) {
  return instant ? instant.replace("T", " ").replace("Z", "") : "unknown";
}

export function formatActor(actor) {
  return actor ? `${actor.type} ${shortenId(actor.id)}` : "unknown";
}

/** Returns the first 8 characters of a UUID, which are enough to distinguish ids in a list. */
export function shortenId(id) {
  return /^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(id) ? id.slice(0, 8) : id;
}

/** Returns the category and the id in the name of a stream. */
export function splitStreamName(stream) {
  const at = stream.indexOf("-");
  return at < 0 ? [stream, ""] : [stream.slice(0, at), stream.slice(at + 1)];
}

/** Formats a value as JSON on one line. An undefined value becomes a dash. */
export function formatValue(value) {
  return value === undefined ? "—" : JSON.stringify(value);
}
