/** `agentd sessions`: the saved sessions of the home, or of a server. */
import process from "node:process";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import {
  AgentApiError,
  type Session,
  type SessionMessage,
  type SessionMessageList,
} from "../../client/http.ts";
import { withApi, type Api } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { UsageError } from "../kit/arguments.ts";
import { listTime, print, printData, printJson, printTable, warn } from "../kit/output.ts";
import { MAX_PAGE, readPages } from "../kit/pages.ts";
import {
  cursorOption,
  jsonOption,
  limitOption,
  requiredArgument,
  switchOption,
  textOption,
  toLimit,
  yesOption,
  quietOption,
} from "../kit/options.ts";
import { confirm } from "../kit/confirm.ts";
import { writeOutput, writeStdout } from "../kit/streams.ts";
import { messageText, oneLine, sessionText } from "./text.ts";

/** The owner of sessions created with `api_server.key`. */
const MAIN_OWNER = "default";
const SHOWN_MESSAGES = 20;
const MAX_LIMIT = 200;
const MAX_OWNERS = 20;

const owner = textOption(
  "name",
  `Name of the owner of the sessions; "anonymous" without keys. Default: ${MAIN_OWNER}, on a server that of the key`,
);
const session = requiredArgument(
  "Id or exact title of the session. The newest session with that title is used",
);

const list = defineApiCommand({
  meta: { name: "list", description: "List the saved sessions of an owner, newest first" },
  args: {
    owner,
    all: switchOption(
      "List all sessions: of every owner, and also those of single requests, sub-agents and background tasks",
    ),
    limit: limitOption("Sessions", { max: MAX_LIMIT, fallback: 50 }),
    cursor: cursorOption,
    quiet: quietOption,
    json: jsonOption,
  },
  async run({ args }) {
    const limit = toLimit(args.limit, MAX_LIMIT);
    await withApi(async (api) => {
      const headers = args.all ? api.anyOwner : ownerHeader(api, args.owner);
      const filter = args.all ? { internal: true, stateless: true } : {};
      const { sessions, next } = await listSessions(api, filter, { headers, limit, cursor: args.cursor });
      if (args.json) printJson({ sessions, next_cursor: next });
      else if (args.quiet) for (const { id } of sessions) printData(id);
      else if (sessions.length > 0) printSessions(sessions, args.all === true);
      if (sessions.length === 0)
        warn(args.all ? "No sessions exist yet." : await emptyHint(api, args.owner ?? MAIN_OWNER));
      if (next !== null && !args.json) warn(`More sessions follow: pass --cursor ${next}`);
    });
  },
});

async function listSessions(
  { client }: Api,
  filter: { readonly internal?: boolean; readonly stateless?: boolean },
  {
    headers,
    limit,
    cursor,
  }: { readonly headers: Api["anyOwner"]; readonly limit: number; readonly cursor?: string | undefined },
): Promise<{ readonly sessions: readonly Session[]; readonly next: string | null }> {
  const read = (page: object) => client.listSessions({ query: { ...filter, ...page }, headers });
  const { rows: sessions, next } = await readPages(read, { limit, after: cursor });
  return { sessions, next };
}

/** On a server, the key's own owner is the default. */
function ownerHeader(api: Api, name: string | undefined): Api["anyOwner"] {
  if (name !== undefined) return api.target ? { "X-Agent-Owner": name } : api.ownedBy(name);
  return api.target ? {} : api.ownedBy(MAIN_OWNER);
}

const show = defineApiCommand({
  meta: { name: "show", description: `Print a session with its last ${SHOWN_MESSAGES} messages` },
  args: {
    session,
    owner,
    all: switchOption("Print all messages"),
    json: jsonOption,
  },
  async run({ args }) {
    await withSession(args, async (api, found) => {
      if (args.json && args.all) return writeStdout(await exportOf(api, found, "json"));
      const messages = args.all ? undefined : await newestMessages(api, found);
      if (args.json) return printJson({ session: found, messages });
      print(sessionText(found));
      await writeStdout(shownMessages(messages ? [messages] : allMessages(api, found)));
      if (messages && found.message_count > messages.length)
        warn(`These are the last ${messages.length} messages. Pass --all to print all.`);
    });
  },
});

const exportCommand = defineApiCommand({
  meta: { name: "export", description: "Write a whole session with its tool calls to stdout or a file" },
  args: {
    session,
    owner,
    format: {
      type: "enum",
      options: ["json", "jsonl", "markdown"],
      valueHint: "format",
      default: "json",
      description: "Output format",
    },
    output: textOption("file", "Write to this file atomically, with mode 0600"),
    force: switchOption("Replace an existing file"),
  },
  async run({ args }) {
    if (args.force && args.output === undefined) throw new UsageError("--force requires --output.");
    await withSession(args, async (api, found) => {
      const text = await exportOf(api, found, args.format as ExportFormat);
      if (args.output === undefined) return writeStdout(text);
      const path = await writeOutput(args.output, text, { force: args.force === true });
      warn(`Wrote ${found.id} to ${path}.`);
    });
  },
});

const deleteCommand = defineApiCommand({
  meta: { name: "delete", description: "Permanently delete a session with its messages, runs and events" },
  args: {
    session,
    owner,
    force: switchOption("Stop its runs first"),
    yes: yesOption,
    json: jsonOption,
  },
  async run({ args }) {
    if (!args.yes && !confirm.isPossible()) {
      throw new UsageError(
        "Cannot ask for confirmation without a terminal. Pass --yes to delete the session.",
      );
    }
    await withSession(args, async (api, { id, owner: name, title, message_count: count }) => {
      const label = title === null ? "untitled" : JSON.stringify(oneLine(title));
      if (!args.yes && !(await confirm.ask(`Delete ${id} (${label}, ${count} messages) permanently?`))) {
        warn("Nothing was deleted.");
        process.exitCode = 1;
        return;
      }
      const request = { path: { session_id: id }, headers: api.ownedBy(name) };
      const query = args.force ? { force: true } : {};
      const { data: deleted } = await api.client
        .deleteSession({ ...request, query })
        .catch((error: unknown) => {
          throw isCode(error, "session_busy") ? busy(id) : error;
        });
      if (args.json) printJson(deleted);
      else print(`Deleted ${id}.`);
    });
  },
});

function busy(id: string): ServiceError {
  const what = `Session ${id} is busy: a run of it is active. Wait until it ends, or pass --force to stop it. After a crash, start \`agentd gateway\` once to close the run.`;
  return new ServiceError("session_busy", what);
}

export const sessionsCommand = defineCommand({
  meta: { name: "sessions", description: "List, show, export and delete saved sessions" },
  subCommands: { list, show, export: exportCommand, delete: deleteCommand },
});

async function withSession(
  { session: ref, owner: name }: { readonly session: string; readonly owner?: string | undefined },
  work: (api: Api, found: Session) => Promise<void>,
): Promise<void> {
  await withApi(async (api) => work(api, await findSession(api, ref, name)));
}

/** Returns the session with this id, or the newest with this title. ServiceError `session_not_found`. */
async function findSession(api: Api, ref: string, name: string | undefined): Promise<Session> {
  const headers = ownerHeader(api, name);
  const found = await api.client
    .getSession({ path: { session_id: ref }, headers })
    .catch((error: unknown) => {
      if (isCode(error, "session_not_found") || isCode(error, "invalid_request")) return undefined;
      throw error;
    });
  if (found) return found.data;
  const query = { title: ref, internal: true, stateless: true, limit: 1 };
  const [newest] = (await api.client.listSessions({ query, headers })).data.data;
  if (newest) return newest;
  const hint = `List the sessions with \`agentd sessions list${name === undefined ? "" : ` --owner ${name}`}\`.`;
  throw new ServiceError("session_not_found", `Session ${JSON.stringify(ref)} does not exist. ${hint}`);
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof AgentApiError && error.code === code;
}

const RESULTS = ["tool_results" as const];

function requestOf({ ownedBy }: Api, { id, owner: name }: Session) {
  return { path: { session_id: id }, headers: ownedBy(name) };
}

/** Returns the last messages, oldest first. */
async function newestMessages(api: Api, found: Session): Promise<readonly SessionMessage[]> {
  const query = { order: "desc" as const, limit: SHOWN_MESSAGES, include: RESULTS };
  return (await api.client.listSessionMessages({ ...requestOf(api, found), query })).data.data.toReversed();
}

async function* allMessages(api: Api, found: Session): AsyncGenerator<readonly SessionMessage[]> {
  for (let after: string | undefined; ;) {
    const query = {
      order: "asc" as const,
      limit: MAX_PAGE,
      include: RESULTS,
      ...(after === undefined ? {} : { after }),
    };
    const page: SessionMessageList = (
      await api.client.listSessionMessages({ ...requestOf(api, found), query })
    ).data;
    yield page.data;
    if (!page.has_more || page.last_id === null) return;
    after = page.last_id;
  }
}

async function* shownMessages(
  pages: Iterable<readonly SessionMessage[]> | AsyncIterable<readonly SessionMessage[]>,
): AsyncGenerator<string> {
  for await (const page of pages) for (const message of page) yield `\n${messageText(message)}\n`;
}

type ExportFormat = "json" | "jsonl" | "markdown";

/** Returns a whole session as it arrives: text on this machine, bytes from a server. */
async function exportOf(
  api: Api,
  found: Session,
  format: ExportFormat,
): Promise<AsyncIterable<string | Uint8Array>> {
  const request = { ...requestOf(api, found), query: { format }, parseAs: "stream" as const };
  return (await api.client.exportSession(request)).data as unknown as AsyncIterable<string | Uint8Array>;
}

async function emptyHint(api: Api, name: string): Promise<string> {
  const all = await listSessions(api, {}, { headers: api.anyOwner, limit: MAX_PAGE });
  const owners = [...new Set(all.sessions.map((each) => each.owner))].filter((each) => each !== name);
  const others = owners.slice(0, MAX_OWNERS).toSorted().map(oneLine).join(", ");
  const hint = others === "" ? "" : ` Other owners with sessions: ${others}. Select one with --owner.`;
  return `${JSON.stringify(name)} has no sessions.${hint}`;
}

function printSessions(sessions: readonly Session[], hasOwners: boolean): void {
  const nowMs = Date.now();
  printTable(
    ["ID", "UPDATED", "MESSAGES", ...(hasOwners ? ["OWNER"] : []), "SOURCE", "TITLE"],
    sessions.map((each) => [
      each.id,
      listTime(each.updated_at * 1000, nowMs),
      String(each.message_count),
      ...(hasOwners ? [oneLine(each.owner)] : []),
      each.source,
      oneLine(each.title ?? each.preview),
    ]),
  );
}
