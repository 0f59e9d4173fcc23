/** Blocks that came outside of the requests that the protocol's schema checks. Pure. */
import type { ContentBlock } from "@agentclientprotocol/sdk/unstable";
import { isRecord } from "../../base/json/schema.ts";
import { invalidParams } from "../wire/error.ts";

/** The texts that a block of a type must have. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  text: ["text"],
  image: ["data", "mimeType"],
  resource_link: ["name", "uri"],
};

/** RequestError -32602 that names what is wrong. Whether a type is taken is for who reads the blocks. */
export function readBlocks(value: unknown): readonly ContentBlock[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw invalidParams("prompt", "prompt must be a list of at least one block.");
  }
  return value.map((block: unknown, index) => readBlock(block, `prompt[${index}]`));
}

function readBlock(block: unknown, at: string): ContentBlock {
  if (!isRecord(block)) throw invalidParams(at, `${at} must be an object.`);
  const { type, resource } = block;
  if (typeof type !== "string") throw invalidParams(at, `${at}.type must be a text.`);
  if (type === "resource") checkResource(resource, `${at}.resource`);
  else checkTexts(block, FIELDS[type] ?? [], at);
  return block as ContentBlock;
}

function checkResource(resource: unknown, at: string): void {
  if (!isRecord(resource)) throw invalidParams(at, `${at} must be an object.`);
  checkTexts(resource, ["uri", "text" in resource ? "text" : "blob"], at);
}

function checkTexts(value: Readonly<Record<string, unknown>>, names: readonly string[], at: string): void {
  const wrong = names.find((name) => typeof value[name] !== "string");
  if (wrong !== undefined) throw invalidParams(`${at}.${wrong}`, `${at}.${wrong} must be a text.`);
}
