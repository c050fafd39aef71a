/** Settings of query-api without servers: no server listens on port 1. */
export const nowhere = "http://127.0.0.1:1";

/** The settings of a query API that reaches no server: it starts, serves its documents, and answers 503 for data. */
export const queryEnvironment = {
  PORT: "0",
  LOG_LEVEL: "fatal",
  DATABASE_URL: "postgres://nobody:secret@127.0.0.1:1/clinic",
  OPERATOR_NAME: "Test Operator",
  PORTAL_COOKIE_NAME: "sb-test-auth-token",
  PORTAL_JWT_ISSUER: nowhere,
  PORTAL_JWT_SECRET: "a secret that is as long as it must be",
  TOKEN_ISSUER: nowhere,
  TOKEN_JWKS_URL: `${nowhere}/.well-known/jwks.json`,
};
