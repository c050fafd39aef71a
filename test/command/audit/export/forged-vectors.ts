/** Builds test vectors with recomputed hash chains, and with manifests that the service never signs. */
import { type CompactJWSHeaderParameters, CompactSign } from "jose";
import { CHAIN_SEED, computeNextLink } from "../../../../command/audit/export/chain.ts";
import { toCanonicalJson } from "../../../../command/audit/export/json.ts";
import { createManyEvents, historyEvents } from "./vector-events.ts";
import { exportLines } from "./vector-export.ts";
import { importPrivateKey, otherKey, signingKey, type TestKey } from "./vector-keys.ts";
import type { Contents } from "./vectors.ts";

export async function buildForgedVectors(lines: string[]): Promise<Contents> {
  return { ...(await buildSignedVectors(lines)), ...(await buildRecomputedVectors(lines)) };
}

interface Forgery {
  manifest?: Record<string, unknown>;
  header?: Partial<Record<keyof CompactJWSHeaderParameters, unknown>>;
  key?: TestKey | Uint8Array;
}

/** Files that are signed again: with another key, another header, or the trusted key and another manifest. */
async function buildSignedVectors(lines: string[]): Promise<Contents> {
  const { manifest } = JSON.parse(lines.at(-1) ?? "");
  const hmacKey = Buffer.from(signingKey.x, "base64url");
  const forgeries: Record<string, Forgery> = {
    "signed-by-other-key": { key: otherKey, header: { jwk: toPublicJwk(otherKey) } },
    "key-removed": { header: { jwk: undefined } },
    "key-replaced": { key: otherKey },
    "type-wrong": { header: { typ: "JWT" } },
    "critical-header": { header: { crit: ["b64"], b64: true } },
    "algorithm-wrong": { key: hmacKey, header: { alg: "HS256" } },
    "format-unknown": { manifest: { format: "clinic-service-audit-export/2" } },
    "clinic-in-upper-case": { manifest: { clinicId: "AAAAAAAA-AAAA-4AAA-8AAA-AAAAAAAAAAAA" } },
    "interval-wrong": { manifest: { marks: { ...manifest.marks, every: 3 } } },
    "manifest-extended": { manifest: { note: "" } },
    "manifest-time-wrong": { manifest: { stored: { from: null, to: "2026-06-01T00:00:00Z" } } },
    "count-wrong": { manifest: { count: 4 } },
    "first-wrong": { manifest: { first: manifest.last } },
    "last-wrong": { manifest: { last: null } },
  };
  const contents: Contents = {};
  for (const [name, forgery] of Object.entries(forgeries))
    contents[name] = [...lines.slice(0, -1), await signManifest(manifest, forgery)].join("");
  return contents;
}

const toPublicJwk = ({ kty, crv, x }: TestKey) => ({ kty, crv, x });

/** Returns a line with the manifest and its signature. */
async function signManifest(
  originalManifest: Record<string, unknown>,
  { manifest: changes, header, key = signingKey }: Forgery,
): Promise<string> {
  const manifest = { ...originalManifest, ...changes };
  const signature = await new CompactSign(Buffer.from(toCanonicalJson(manifest)))
    .setProtectedHeader({
      alg: "EdDSA",
      typ: "audit-export+jws",
      kid: signingKey.kid,
      jwk: toPublicJwk(signingKey),
      ...header,
    } as CompactJWSHeaderParameters)
    .sign(key instanceof Uint8Array ? key : await importPrivateKey(key), { crit: { b64: true } });
  return `${toCanonicalJson({ manifest, signature })}\n`;
}

/** Files whose hash chain is valid, but differs from the chain of the signed manifest. */
async function buildRecomputedVectors(lines: string[]): Promise<Contents> {
  const manifestLine = lines.at(-1) ?? "";
  const { manifest, signature } = JSON.parse(manifestLine);
  const forgeEvent = (events: object[], forgedIndex: number) =>
    chainEvents(events.map((event, index) => (index === forgedIndex ? { ...event, type: "Forged" } : event)));
  const changed = forgeEvent(historyEvents, 2);
  const changedManifest = { ...manifest, chain: changed.link };
  const extended = chainEvents([...historyEvents, historyEvents[0] ?? {}]);
  const longLines = await exportLines(createManyEvents());
  const longEvents = longLines.slice(0, 5).map((line) => JSON.parse(line).event);
  return {
    "chain-recomputed": changed.text + manifestLine,
    "manifest-recomputed": `${changed.text}${toCanonicalJson({ manifest: changedManifest, signature })}\n`,
    "event-appended": extended.text + manifestLine,
    "marks-of-two-lines": forgeEvent(longEvents, 3).text + longLines.at(-1),
  };
}

/** Computes the hash chain of the events. */
function chainEvents(events: object[]): { text: string; link: string } {
  let link = CHAIN_SEED;
  const lines = events.map((event) => {
    link = computeNextLink(link, toCanonicalJson(event));
    return `${toCanonicalJson({ chain: link, event })}\n`;
  });
  return { text: lines.join(""), link };
}
