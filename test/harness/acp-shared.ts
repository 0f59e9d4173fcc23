/** Places for the tests of a file that share a home and the programs started in it: a start takes more than most tests. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  acpConfig,
  createAcpPlace,
  type AcpPlace,
  type AcpPlaceOptions,
  type AcpProcess,
  type AcpStart,
} from "./acp.ts";
import { oncePerFile } from "./guard.ts";
import type { ModelServer, Replies } from "./openai-server.ts";

/** More than a program grants the turns and MCP servers of a session to stop, on a busy machine. */
const PATIENCE_MS = 60_000;

/**
 * As `createAcpPlace`, each place with its own folder, but all with one home. `start()` hands out a program that an earlier
 * test of the file has used; its sessions are deleted when the test ends. With options, or while all are in use, it starts
 * another one. Not for tests of a start, an exit, the files of the home, what is allowed for good, and what a program remembers
 * of its client until it ends.
 */
export function sharedAcpPlaces(): (options?: AcpPlaceOptions) => Promise<AcpPlace> {
  const open = oncePerFile(openHome);
  return async (options = {}) => (await open()).place(options);
}

interface SharedHome extends AsyncDisposable {
  place(options: AcpPlaceOptions): Promise<AcpPlace>;
}

async function openHome(): Promise<SharedHome> {
  const models = new SwitchedReplies();
  const home = await createAcpPlace({ replies: models.reply });
  const idle: AcpProcess[] = [];
  let config = "";
  let count = 0;
  const keepIf = async (program: AcpProcess, isFit: Promise<boolean>) => {
    if (await isFit) idle.push(program);
    else await program[Symbol.asyncDispose]();
  };
  return {
    async place({ replies, config: more = "" }) {
      const base = join(home.base, `place-${++count}`);
      const folder = join(base, "work");
      await mkdir(folder, { recursive: true });
      const view = replies && models.switchTo(replies, home.models as ModelServer);
      const wanted = acpConfig(view, more);
      if (wanted !== config) {
        await writeFile(join(home.home, "config.yaml"), (config = wanted));
        for (const program of idle.splice(0)) await keepIf(program, readsAgain(program));
      }
      const [used, others] = [new Set<AcpProcess>(), new Set<AcpProcess>()];
      const start = (options?: AcpStart) => {
        const program = (options ? undefined : idle.pop()) ?? home.start(options);
        (options ? others : used).add(program);
        return program;
      };
      return {
        ...home,
        base,
        folder,
        models: view,
        start,
        async [Symbol.asyncDispose]() {
          for (const program of others) await program[Symbol.asyncDispose]();
          for (const program of used) await keepIf(program, letsGo(program));
        },
      };
    },
    [Symbol.asyncDispose]: () => home[Symbol.asyncDispose](),
  };
}

/** One server's replies, which each test replaces. */
class SwitchedReplies {
  #replies: Replies = [];
  #from = 0;

  readonly reply = (...[request, index]: Parameters<Exclude<Replies, readonly unknown[]>>) => {
    const at = index - this.#from;
    const found = typeof this.#replies === "function" ? this.#replies(request, at) : this.#replies[at];
    return found ?? { status: 418, body: "no reply is left" };
  };

  /** The server as if it began now. */
  switchTo(replies: Replies, server: ModelServer): ModelServer {
    const [from, askedFrom] = [server.requests.length, server.asked.length];
    [this.#replies, this.#from] = [replies, from];
    return {
      baseUrl: server.baseUrl,
      host: server.host,
      get requests() {
        return server.requests.slice(from);
      },
      get asked() {
        return server.asked.slice(askedFrom);
      },
      requested: (count) => server.requested(from + count),
      [Symbol.asyncDispose]: async () => {},
    };
  }
}

/** Has a program without open sessions read the configuration again. Resolves to whether it has. */
function readsAgain(program: AcpProcess): Promise<boolean> {
  return carriesOut(program, [{ method: "authenticate", params: { methodId: "provider" } }]);
}

/**
 * Closes and deletes the sessions that a program has told of. Resolves to whether it has: then nothing of the test is at work
 * in it, and its next lines are the next test's.
 */
function letsGo(program: AcpProcess): Promise<boolean> {
  const sessions = [...new Set(program.lines.flatMap(sessionIn))];
  return carriesOut(program, [
    ...sessions.flatMap((sessionId) => [
      { method: "session/close", params: { sessionId } },
      { method: "session/delete", params: { sessionId } },
    ]),
    { method: "session/list", params: {} },
  ]);
}

/** Sends the requests one after the other, between two clients. Resolves to whether the program has answered the last well. */
async function carriesOut(program: AcpProcess, requests: readonly object[]): Promise<boolean> {
  program.renew();
  const all = async () => {
    let answer: Readonly<Record<string, unknown>> = {};
    for (const [at, request] of requests.entries()) {
      program.send({ id: `between-${at}`, ...request });
      answer = await program.answer(`between-${at}`);
    }
    return "result" in answer;
  };
  const answered = new AbortController();
  const late = sleep(PATIENCE_MS, false, { signal: answered.signal }).catch(() => false);
  const isFit = await Promise.race([all().catch(() => false), late]);
  answered.abort();
  program.renew();
  return isFit;
}

/** The session that a line is about, or that it opens. */
function sessionIn({ params, result }: AcpProcess["lines"][number]): readonly string[] {
  const { sessionId } = (params ?? result ?? {}) as { readonly sessionId?: unknown };
  return typeof sessionId === "string" ? [sessionId] : [];
}
