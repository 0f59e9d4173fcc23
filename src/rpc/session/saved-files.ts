/** Files that hosts save in the home: conversations and long pasted texts. Touches the machine. */
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { TranscriptMessage } from "../../../generated/gateway/types/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/text.ts";
import type { RpcDeps } from "../deps.ts";
import { MAX_PASTE_BYTES } from "./references.ts";
import { describeInfo, type OpenSession } from "./session.ts";
import { readMessages } from "./transcript.ts";

/** Pages of a conversation that are saved, each of at most 4 MiB. The oldest messages of a longer one are left out. */
const MAX_PAGES = 64;
const MAX_PASTES = 200;

/** Saves a conversation as JSON. Resolves to the path of the file. ServiceError `save_failed`. */
export async function saveConversation(deps: RpcDeps, session: OpenSession): Promise<string> {
  const { id, row, live } = session;
  const { model, provider, cwd, title } = await describeInfo(deps, { row, seed: live.seed });
  const nowMs = deps.clock.now();
  const saved = {
    session_id: id,
    title,
    model: `${provider}:${model}`,
    cwd,
    started_at: (row?.created_at ?? live.openedAtMs) / 1000,
    saved_at: nowMs / 1000,
    messages: row ? await allMessages(deps, id) : [],
  };
  const stamp = new Date(nowMs).toISOString().replace(/\D/g, "").slice(0, 17);
  const name = `${id.replace(/[^\w-]/g, "_").slice(0, 80)}-${stamp}.json`;
  return write(join(deps.config.home, "exports", name), `${JSON.stringify(saved, null, 2)}\n`);
}

async function allMessages(deps: RpcDeps, sessionId: string): Promise<readonly TranscriptMessage[]> {
  const pages: (readonly TranscriptMessage[])[] = [];
  let before: string | undefined;
  while (pages.length < MAX_PAGES) {
    const { messages, hasMore } = await readMessages(deps, sessionId, { before });
    pages.unshift(messages);
    before = messages[0]?.message_id;
    if (!hasMore || before === undefined) break;
  }
  return pages.flat();
}

/** Returns the folder of pasted texts. */
export function pasteFolder({ config }: RpcDeps): string {
  return join(config.home, "pastes");
}

/**
 * Stores a pasted text; the oldest ones above the limit are deleted. ServiceError `empty_command`, `too_large`,
 * `save_failed`.
 */
export async function storePaste(
  deps: RpcDeps,
  text: string,
): Promise<{ readonly path: string; readonly lines: number }> {
  if (text === "") throw new ServiceError("empty_command", "text must not be empty.", { param: "text" });
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_PASTE_BYTES) {
    throw new ServiceError("too_large", `The text has ${bytes} bytes; the limit is ${MAX_PASTE_BYTES}.`);
  }
  const folder = pasteFolder(deps);
  const path = await write(join(folder, `${createId("paste", deps.clock.now())}.txt`), text);
  const names = (await readdir(folder)).filter((name) => name.startsWith("paste_")).toSorted();
  for (const name of names.slice(0, -MAX_PASTES)) await rm(join(folder, name), { force: true });
  return { path, lines: text.split("\n").length };
}

async function write(path: string, text: string): Promise<string> {
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFile(path, text, { mode: 0o600, flag: "wx" });
    return path;
  } catch (cause) {
    throw new ServiceError("save_failed", "The file cannot be written. The server log has the details.", {
      cause,
    });
  }
}
