import type {
  AgentContext,
  ReadTextFileRequest,
  WriteTextFileRequest,
} from "@agentclientprotocol/sdk/unstable";
import { isWithin } from "../../agent/question/policy/paths.ts";
import { ToolError, type FileAccess } from "../../agent/tool/tool.ts";
import type { AcpConnection } from "../wire/connection.ts";
import type { SessionRoot } from "./roots.ts";

/** Longest wait for what the client has; then the disk is read. */
const READ_MS = 5_000;
/** Writing may have to wait for what formats and saves. */
const WRITE_MS = 30_000;
/** Longer texts are read from the disk. */
const MAX_CHARACTERS = 5_242_880;

/** The files of the session's folders by way of the client, as far as it offers them. */
export function clientFiles(
  connection: AcpConnection,
  sessionId: string,
  roots: readonly SessionRoot[],
): FileAccess {
  const { client } = connection;
  const known = (path: string) => asClientKnows(path, roots);
  return {
    read: async (path, signal) => {
      const name = connection.offers.readsFiles ? known(path) : undefined;
      // It may be gone, or not be one that the client opens: the disk knows.
      return name === undefined
        ? undefined
        : readText(client, { sessionId, path: name }, signal).catch(() => undefined);
    },
    writes: (path) => connection.offers.writesFiles && known(path) !== undefined,
    write: (path, content, signal) =>
      writeText(client, { sessionId, path: known(path) ?? path, content }, signal),
  };
}

async function readText(
  client: AgentContext,
  file: ReadTextFileRequest,
  signal: AbortSignal,
): Promise<string | undefined> {
  const cancellationSignal = AbortSignal.any([signal, AbortSignal.timeout(READ_MS)]);
  const options = { cancellationSignal, stopWaitingOnCancel: true };
  const answer: unknown = await client.request("fs/read_text_file", file, options);
  const { content } = answer as { readonly content?: unknown };
  return typeof content === "string" && content.length <= MAX_CHARACTERS ? content : undefined;
}

async function writeText(
  client: AgentContext,
  file: WriteTextFileRequest,
  signal: AbortSignal,
): Promise<void> {
  const late = AbortSignal.timeout(WRITE_MS);
  const options = { cancellationSignal: AbortSignal.any([signal, late]), stopWaitingOnCancel: true };
  try {
    await client.request("fs/write_text_file", file, options);
  } catch (error) {
    signal.throwIfAborted();
    if (late.aborted) {
      throw new ToolError(
        `The editor did not say within ${WRITE_MS / 1000} s that it wrote ${file.path}. Read it before you write again.`,
      );
    }
    const reason = error instanceof Error ? error.message.slice(0, 300) : "no reason given";
    throw new ToolError(`The editor did not write ${file.path}: ${reason}`);
  }
}

/** The path in the terms in which the client named its folder; undefined for what is in none of them. */
function asClientKnows(path: string, roots: readonly SessionRoot[]): string | undefined {
  for (const { given, real } of roots) {
    if (isWithin(path, given)) return path;
    if (isWithin(path, real)) return `${given}${path.slice(real.length)}`;
  }
  return undefined;
}
