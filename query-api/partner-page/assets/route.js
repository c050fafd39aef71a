/**
 * The URL's fragment contains what the page shows: clinic, tab, endpoint and filters. So the Back button, bookmarks and
 * shared links work. The fragment contains only ids and filters, and no credentials.
 */

/** Returns the parameters in the URL's fragment, as strings by name. Absent parameters are omitted. */
export function readRoute() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

/**
 * Changes parameters in the URL's fragment. Removes parameters whose new value is empty or undefined.
 *
 * @param {{ isNewEntry?: boolean }} options if `isNewEntry` is false, the Back button skips the former URL
 */
export function changeRoute(changes, { isNewEntry = true } = {}) {
  const members = Object.entries({ ...readRoute(), ...changes }).filter(([, value]) => value);
  const fragment = `#${new URLSearchParams(members)}`;
  if (fragment === location.hash || (members.length === 0 && location.hash === "")) return;
  if (isNewEntry) history.pushState(null, "", fragment);
  else history.replaceState(null, "", fragment);
}
