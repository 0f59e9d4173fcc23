/** The smallest file of each type with a size in its header. */
import { crc32, deflateSync } from "node:zlib";

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function chunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  return Buffer.concat([u32(data.length), body, u32(crc32(body))]);
}

export function pngBytes(width: number, height: number): Buffer {
  const head = Buffer.concat([u32(width), u32(height), Buffer.from([8, 0, 0, 0, 0])]);
  const rows = width * height > 1_000_000 ? Buffer.alloc(10) : Buffer.alloc((width + 1) * height);
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk("IHDR", head),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", new Uint8Array()),
  ]);
}

export function gifBytes(width: number, height: number): Buffer {
  const size = Buffer.from([width & 255, width >> 8, height & 255, height >> 8]);
  return Buffer.concat([Buffer.from("GIF89a"), size, Buffer.from([0, 0, 0, 0x3b])]);
}

export function jpegBytes(width: number, height: number): Buffer {
  const app0 = Buffer.from([0xff, 0xe0, 0, 16, 0x4a, 0x46, 0x49, 0x46, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0]);
  const frame = Buffer.from([
    0xff,
    0xc0,
    0,
    11,
    8,
    height >> 8,
    height & 255,
    width >> 8,
    width & 255,
    1,
    1,
    17,
    0,
  ]);
  return Buffer.concat([Buffer.from([0xff, 0xd8]), app0, frame, Buffer.from([0xff, 0xd9])]);
}

export function webpBytes(width: number, height: number): Buffer {
  const frame = Buffer.from([
    0,
    0,
    0,
    0x9d,
    0x01,
    0x2a,
    width & 255,
    width >> 8,
    height & 255,
    height >> 8,
    0,
    0,
  ]);
  const body = Buffer.concat([Buffer.from("WEBPVP8 "), le32(frame.length), frame]);
  return Buffer.concat([Buffer.from("RIFF"), le32(body.length), body]);
}

function le32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
