/** URL without a server. */
export const UNREACHABLE_URL = "http://127.0.0.1:1";

/** Settings of a query API without reachable servers. It starts and serves its documents, but returns 503 for data. */
export const queryEnvironment = {
  PORT: "0",
  LOG_LEVEL: "fatal",
  DATABASE_URL: "postgres://nobody:secret@127.0.0.1:1/clinic",
  OPERATOR_NAME: "Test Operator",
  PORTAL_COOKIE_NAME: "sb-test-auth-token",
  PORTAL_JWT_ISSUER: UNREACHABLE_URL,
  PORTAL_JWT_SECRET: "a secret that is as long as it must be",
  TOKEN_ISSUER: UNREACHABLE_URL,
  TOKEN_JWKS_URL: `${UNREACHABLE_URL}/.well-known/jwks.json`,
};
