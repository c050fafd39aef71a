// By default, a decoder replaces invalid UTF-8 and removes a byte order mark, which would hide a difference.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes UTF-8. Keeps a byte order mark. Returns undefined for bytes that are not valid UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_ENCODING_INVALID_ENCODED_DATA") return undefined;
    throw error;
  }
}
