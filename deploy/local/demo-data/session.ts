import { SignJWT } from "jose";

const SESSION_LIFETIME_SECONDS = 7 * 86_400;

/**
 * Returns the Cookie header of a signed-in portal user. The session is valid for seven days. The package
 * `@supabase/ssr` defines the format of the cookie: `base64-`, followed by the session's JSON as base64url.
 *
 * @param now milliseconds since 1970
 */
export async function createSessionCookie(
  user: { id: string; email: string },
  portalSettings: { jwtSecret: string; jwtIssuer: string; cookieName: string },
  now: number,
): Promise<string> {
  const issuedAtSeconds = Math.floor(now / 1000);
  const expiresAtSeconds = issuedAtSeconds + SESSION_LIFETIME_SECONDS;
  const accessToken = await new SignJWT({ role: "authenticated", email: user.email })
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .setIssuer(portalSettings.jwtIssuer)
    .setAudience("authenticated")
    .setSubject(user.id)
    .setIssuedAt(issuedAtSeconds)
    .setExpirationTime(expiresAtSeconds)
    .sign(new TextEncoder().encode(portalSettings.jwtSecret));
  const session = {
    access_token: accessToken,
    token_type: "bearer",
    expires_in: SESSION_LIFETIME_SECONDS,
    expires_at: expiresAtSeconds,
    refresh_token: "local-demo-sessions-are-not-refreshed",
    user: { id: user.id, aud: "authenticated", role: "authenticated", email: user.email },
  };
  const cookieValue = Buffer.from(JSON.stringify(session)).toString("base64url");
  return `${portalSettings.cookieName}=base64-${cookieValue}`;
}
