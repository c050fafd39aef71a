/**
 * Private certificate authority in place of Let's Encrypt. Issues the certificates of the public name and the receiver.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { runChecked } from "../process.ts";

/** Creates the authority's certificate `ca.crt`, and `<host>.crt` and `<host>.key` for each host. */
export async function createCertificates(folder: string, hosts: readonly string[]): Promise<void> {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"];
  const inFolder = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => runChecked("openssl", args);
  const authority = ["-keyout", inFolder("ca.key"), "-out", inFolder("ca.crt"), "-days", "30"];
  await openssl("req", "-x509", ...key, "-subj", "/CN=public-authority", ...authority);
  for (const host of hosts) {
    const [request, extensions] = [inFolder(`${host}.csr`), inFolder(`${host}.ext`)];
    writeFileSync(extensions, `subjectAltName = DNS:${host}\nextendedKeyUsage = serverAuth\n`);
    await openssl("req", "-new", ...key, "-subj", `/CN=${host}`, "-keyout", inFolder(`${host}.key`), "-out", request);
    const signer = ["-CA", inFolder("ca.crt"), "-CAkey", inFolder("ca.key"), "-CAcreateserial", "-days", "30"];
    await openssl("x509", "-req", "-in", request, ...signer, "-extfile", extensions, "-out", inFolder(`${host}.crt`));
  }
}
