/** `agentd sessions`: reads saved sessions from the database, whether the service runs or not. */
import process from "node:process";
import { defineCommand } from "citty";
import { Sessions } from "../../agent/session/sessions.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { Session } from "../../client/http.ts";
import { withApi, type Api } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { UsageError } from "../kit/arguments.ts";
import { listTime, print, printData, printJson, printTable, warn } from "../kit/output.ts";
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
import { newestMessages, readPages, sessionRows, messageText, oneLine, toJson, toMarkdown } from "./text.ts";
import { findDatabase, noDatabase, withDatabase } from "../kit/database.ts";
import { writeOutput, writeStdout } from "../kit/streams.ts";

/** The owner of sessions created with `api_server.key`. */
const MAIN_OWNER = "default";
const SHOWN_MESSAGES = 20;
const MAX_LIMIT = 200;
const MAX_OWNERS = 20;

const owner = {
  type: "string",
  valueHint: "name",
  default: MAIN_OWNER,
  description: 'Name of the API key that owns the sessions; "anonymous" without keys',
} as const;
const session = requiredArgument(
  "Id or exact title of the session. The newest session with that title is used",
);

const list = defineApiCommand({
  meta: { name: "list", description: "List the saved sessions of an owner, newest first" },
  args: {
    owner: {
      ...owner,
      default: undefined,
      description: `${owner.description}. Default: ${MAIN_OWNER}, on a server that of the key`,
    },
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

/** Sessions of one request. */
const PAGE = 100;

async function listSessions(
  { client }: Api,
  filter: { readonly internal?: boolean; readonly stateless?: boolean },
  {
    headers,
    limit,
    cursor,
  }: { readonly headers: Api["anyOwner"]; readonly limit: number; readonly cursor?: string | undefined },
): Promise<{ readonly sessions: readonly Session[]; readonly next: string | null }> {
  const sessions: Session[] = [];
  for (let after = cursor; ;) {
    const size = Math.min(PAGE, limit - sessions.length);
    const query = { ...filter, limit: size, ...(after === undefined ? {} : { after }) };
    const { data: page } = await client.listSessions({ query, headers });
    sessions.push(...page.data);
    const next = page.has_more ? page.last_id : null;
    if (next === null || sessions.length >= limit) return { sessions, next };
    after = next;
  }
}

/** On a server, the key's own owner is the default. */
function ownerHeader(api: Api, name: string | undefined): Api["anyOwner"] {
  if (name !== undefined) return api.target ? { "X-Agent-Owner": name } : api.ownedBy(name);
  return api.target ? {} : api.ownedBy(MAIN_OWNER);
}

const show = defineCommand({
  meta: { name: "show", description: `Print a session with its last ${SHOWN_MESSAGES} messages` },
  args: {
    session,
    owner,
    all: switchOption("Print all messages"),
    json: jsonOption,
  },
  async run({ args }) {
    await withSession(args, async (store, row) => {
      if (args.json) {
        const newest = args.all ? undefined : newestMessages(store, row, SHOWN_MESSAGES);
        return writeStdout(toJson(row, newest ?? readPages(store, row)));
      }
      for (const [name, value] of sessionRows(row)) print(`${name.padEnd(9)} ${value}`);
      await writeStdout(shownMessages(store, row, args.all === true));
    });
  },
});

const exportCommand = defineCommand({
  meta: { name: "export", description: "Write a whole session with its tool calls to stdout or a file" },
  args: {
    session,
    owner,
    format: {
      type: "enum",
      options: ["json", "markdown"],
      valueHint: "format",
      default: "json",
      description: "Output format",
    },
    output: textOption("file", "Write to this file atomically, with mode 0600"),
    force: switchOption("Replace an existing file"),
  },
  async run({ args }) {
    if (args.force && args.output === undefined) throw new UsageError("--force requires --output.");
    await withSession(args, async (store, row) => {
      const pages = readPages(store, row);
      const text = args.format === "markdown" ? toMarkdown(row, pages) : toJson(row, pages);
      if (args.output === undefined) return writeStdout(text);
      const path = await writeOutput(args.output, text, { force: args.force === true });
      warn(`Wrote ${row.id} to ${path}.`);
    });
  },
});

const deleteCommand = defineCommand({
  meta: { name: "delete", description: "Permanently delete a session with its messages, runs and events" },
  args: {
    session,
    owner,
    yes: yesOption,
    json: jsonOption,
  },
  async run({ args }) {
    if (!args.yes && !confirm.isPossible()) {
      throw new UsageError(
        "Cannot ask for confirmation without a terminal. Pass --yes to delete the session.",
      );
    }
    await withSession(args, async (store, row) => {
      refuseBusy(store, row);
      const question = `Delete ${row.id} (${nameOf(row)}, ${row.last_message} messages) permanently?`;
      if (!args.yes && !(await confirm.ask(question))) {
        warn("Nothing was deleted.");
        process.exitCode = 1;
        return;
      }
      await new Sessions(store).delete(row.id, row.owner);
      if (args.json) printJson({ id: row.id, deleted: true });
      else print(`Deleted ${row.id}.`);
    });
  },
});

export const sessionsCommand = defineCommand({
  meta: { name: "sessions", description: "List, show, export and delete saved sessions" },
  subCommands: { list, show, export: exportCommand, delete: deleteCommand },
});

async function withSession(
  args: { readonly session: string; readonly owner: string },
  work: (store: Store, row: SessionRow) => Promise<void>,
): Promise<void> {
  const database = await findDatabase();
  if (!database.exists) throw new ServiceError("not_found", noDatabase(database.location));
  await withDatabase(database, async (store) => {
    const row = await new Sessions(store).find(args.session, args.owner).catch(async (error: unknown) => {
      if (!(error instanceof ServiceError) || error.code !== "session_not_found") throw error;
      const hint = `List the sessions with \`agentd sessions list --owner ${args.owner}\`.`;
      throw new ServiceError(error.code, `${error.message} ${hint}`, { cause: error });
    });
    await work(store, row);
  });
}

/** Rejects a busy session. After a crash only the service can close the interrupted turn. */
function refuseBusy(store: Store, { id, lease_owner: holder }: SessionRow): void {
  if (holder === null) return;
  const next = store.ownerIsDead(holder)
    ? "a crash interrupted its turn. Start `agentd gateway` once to close the turn, then delete the session."
    : "a turn is running. Stop the turn, or wait until it ends.";
  throw new ServiceError("session_busy", `Session ${id} is busy: ${next}`);
}

async function* shownMessages(store: Store, row: SessionRow, all: boolean): AsyncGenerator<string> {
  let count = 0;
  for await (const page of all ? readPages(store, row) : newestMessages(store, row, SHOWN_MESSAGES)) {
    for (const message of page) yield `\n${messageText(message)}\n`;
    count += page.length;
  }
  if (!all && count === SHOWN_MESSAGES && row.last_message > count) {
    warn(`These are the last ${count} messages. Pass --all to print all.`);
  }
}

async function emptyHint(api: Api, name: string): Promise<string> {
  const all = await listSessions(api, {}, { headers: api.anyOwner, limit: PAGE });
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

function nameOf({ title }: SessionRow): string {
  return title === null ? "untitled" : JSON.stringify(oneLine(title));
}
