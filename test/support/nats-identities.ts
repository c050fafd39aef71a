/** Creates an operator, an account and a user of NATS, as the program `nsc` does. */
import { randomUUID } from "node:crypto";
import { nkeys } from "nats";

/** Configuration of a server that trusts the operator, and credentials of the user. */
export interface NatsIdentities {
  /** Options of nats-server. */
  serverConfig: string;
  /** Content of a credentials file. */
  credentials: string;
}

type KeyPair = ReturnType<typeof nkeys.createUser>;

const UNLIMITED = { subs: -1, data: -1, payload: -1 };
const ACCOUNT_LIMITS = { ...UNLIMITED, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };

export function createNatsIdentities(): NatsIdentities {
  const [operator, account, user] = [nkeys.createOperator(), nkeys.createAccount(), nkeys.createUser()];
  const operatorJwt = signJwt(operator, operator, { type: "operator" });
  const accountJwt = signJwt(operator, account, { type: "account", limits: ACCOUNT_LIMITS });
  const userJwt = signJwt(account, user, { type: "user", pub: {}, sub: {}, ...UNLIMITED });
  const seed = new TextDecoder().decode(user.getSeed());
  return {
    serverConfig: `operator: "${operatorJwt}"
resolver: MEMORY
resolver_preload: { ${account.getPublicKey()}: "${accountJwt}" }`,
    credentials: `-----BEGIN NATS USER JWT-----
${userJwt}
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
${seed}
------END USER NKEY SEED------
`,
  };
}

/** Creates a JWT in which the issuer makes claims about the subject. */
function signJwt(issuer: KeyPair, subject: KeyPair, claims: object): string {
  const header = { typ: "JWT", alg: "ed25519-nkey" };
  const registeredClaims = {
    jti: randomUUID(),
    iat: Math.floor(Date.now() / 1000),
    iss: issuer.getPublicKey(),
    sub: subject.getPublicKey(),
    name: "test",
  };
  const payload = { ...registeredClaims, nats: { ...claims, version: 2 } };
  const signedPart = [header, payload].map((part) => encode(Buffer.from(JSON.stringify(part)))).join(".");
  return `${signedPart}.${encode(issuer.sign(Buffer.from(signedPart)))}`;
}

function encode(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64url");
}
