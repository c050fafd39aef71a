import type { IncomingMessage } from "node:http";

/**
 * Lists the values of a request header, in order. Unlike `headersDistinct`, it does not convert all other headers.
 *
 * @param name name in lower case
 */
export function listHeaderValues({ rawHeaders }: IncomingMessage, name: string): string[] {
  const values: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const headerName = rawHeaders[index] as string;
    const isMatch = headerName.length === name.length && headerName.toLowerCase() === name;
    if (isMatch) values.push(rawHeaders[index + 1] as string);
  }
  return values;
}
