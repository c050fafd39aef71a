/** Encodes safe integers as eight bytes, with the most significant byte first. */

const TWO_POW_32 = 0x1_0000_0000;

/** Writes a safe integer as eight bytes. Encoded integers sort in numeric order. */
export function writeSafeInteger(target: Buffer, value: number, offset: number): void {
  target.writeUInt32BE(Math.floor(value / TWO_POW_32), offset);
  target.writeUInt32BE(value % TWO_POW_32, offset + 4);
}

/** Reads a safe integer from eight bytes. */
export function readSafeInteger(source: Buffer, offset: number): number {
  return source.readUInt32BE(offset) * TWO_POW_32 + source.readUInt32BE(offset + 4);
}
