/**
 * Other paths of operations, in the format of other agents (`x-aliases` of specs/http.openapi.yaml). A request becomes that
 * of the operation, with its key, checks and limits; its answer becomes one of the alias.
 */
import type { H3Event } from "h3";
import type { Job, Session, SessionMessage } from "../../generated/http/client/types.gen.ts";
import type { aliases } from "../../generated/http/server.gen.ts";
import { operations } from "../../generated/http/server.gen.ts";
import { isRecord } from "../base/data.ts";
import { readBody } from "../base/net/request.ts";
import type { HttpDeps } from "./deps.ts";
import { authorize } from "./edge/access.ts";
import { BODY_SETTINGS } from "./edge/input.ts";

export type Alias = (typeof aliases)[number];

/** Calls an operation. */
type Call = (request: Request) => Response | Promise<Response>;

/** What a request to an alias works with. */
interface Aliased {
  readonly call: Call;
  readonly request: Request;
  /** The body, if it is a JSON object. */
  readonly body: JsonObject;
  /** The bytes of another body: the operation says what is wrong with it. */
  readonly other: Uint8Array<ArrayBuffer> | undefined;
  readonly query: URLSearchParams;
  /** The path of the operation. */
  readonly path: string;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** Answers a request to an alias. */
export async function answerAlias(
  event: H3Event,
  { name, operation: id, method }: Alias,
  { deps, call }: { readonly deps: HttpDeps; readonly call: Call },
): Promise<Response> {
  const operation = operations[id];
  // A body is read for a caller that may send one.
  const isAdmitted = await isAllowed(event, operation, deps);
  const read = isAdmitted && method !== "GET" ? await bodyOf(event, deps) : NO_BODY;
  const path = operation.route.replace(
    /\{([^}]+)\}/g,
    (_, param: string) => event.context.params?.[param] ?? "",
  );
  const aliased = { call, request: event.req, path, query: event.url.searchParams, ...read };
  return answers[name](aliased);
}

async function isAllowed(
  event: H3Event,
  operation: Parameters<typeof authorize>[1],
  { keys }: HttpDeps,
): Promise<boolean> {
  try {
    await authorize(keys, operation, event.req.headers.get("authorization"));
    return true;
  } catch {
    // The operation refuses the request in the same way, and reports it.
    return false;
  }
}

const NO_BODY = { body: {}, other: undefined };

async function bodyOf(
  event: H3Event,
  { settings, clock }: HttpDeps,
): Promise<Pick<Aliased, "body" | "other">> {
  const { maxBodyBytes: maxBytes, bodyTimeoutMs: timeoutMs } = settings;
  const bytes = await readBody(event, { maxBytes, timeoutMs, clock, settings: BODY_SETTINGS });
  if (bytes.length === 0) return NO_BODY;
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (isRecord(value)) return { body: value, other: undefined };
  } catch {
    // Below.
  }
  return { body: {}, other: new Uint8Array(bytes) };
}

/** Pages that an alias without pages reads at most. */
const MAX_PAGES = 100;
const PAGE = 100;

const answers: Readonly<Record<Alias["name"], (aliased: Aliased) => Promise<Response>>> = {
  jobs_list: async (aliased) => {
    const withAll = isTrue(aliased.query.get("include_disabled"));
    const states: Readonly<Record<string, string>> = withAll ? {} : { state: "scheduled,error" };
    return listed<Job>(aliased, states, (jobs) => ({ jobs: jobs.map(toJob) }));
  },
  jobs_create: (aliased) => answer(aliased, { body: fromJob(aliased.body) }, withJob),
  job_get: (aliased) => answer(aliased, {}, withJob),
  job_update: (aliased) => answer(aliased, { body: fromJob(aliased.body) }, withJob),
  job_delete: (aliased) => answer(aliased, { query: { stop: "true" } }, ({ id }) => ({ ok: true, id })),
  job_pause: (aliased) => answer(aliased, { body: some(aliased.body, ["reason"]) }, withJob),
  job_resume: (aliased) => answer(aliased, { body: {} }, withJob),
  job_run: (aliased) => answer(aliased, { body: {} }, ({ job }) => withJob(job as object)),
  sessions_list: async (aliased) => {
    const { query } = aliased;
    const [limit, offset] = [countIn(query, "limit", 20, 100), countIn(query, "offset", 0, MAX_PAGES * PAGE)];
    const source = query.get("source");
    return listed<Session>(
      aliased,
      source === null ? {} : { source },
      (sessions) => ({
        object: "list",
        data: sessions.slice(offset, offset + limit).map(toSession),
        limit,
        offset,
        has_more: sessions.length > offset + limit,
      }),
      offset + limit + 1,
    );
  },
  session_create: (aliased) =>
    answer(aliased, { body: some(aliased.body, ["id", "title", "model", "cwd"]) }, withSession),
  session_get: (aliased) => answer(aliased, {}, withSession),
  session_update: (aliased) => answer(aliased, { body: some(aliased.body, ["title", "model"]) }, withSession),
  session_delete: (aliased) =>
    answer(aliased, { query: { force: "true" } }, ({ id }) => ({
      object: "session.deleted",
      id,
      deleted: true,
    })),
  session_messages: async (aliased) => {
    const wanted = { order: "asc", include: "tool_results" };
    const [, id = ""] = /([^/]+)\/messages$/.exec(aliased.path) ?? [];
    return listed<SessionMessage>(aliased, wanted, (messages) => ({
      object: "list",
      session_id: decodeURIComponent(id),
      data: messages.map(toMessage),
    }));
  },
  session_fork: (aliased) => answer(aliased, { body: some(aliased.body, ["title"]) }, withSession),
};

/** Calls the operation and returns its answer in another form. */
async function answer(
  aliased: Aliased,
  sent: { readonly body?: JsonObject; readonly query?: Readonly<Record<string, string>> },
  show: (body: JsonObject) => object,
): Promise<Response> {
  const response = await send(aliased, sent);
  if (!response.ok) return failed(response);
  return json(response, show((await response.json()) as JsonObject));
}

/** Returns all rows of a list, or the first `count`, in another form. */
async function listed<Row>(
  aliased: Aliased,
  filters: Readonly<Record<string, string>>,
  show: (rows: readonly Row[]) => object,
  count = MAX_PAGES * PAGE,
): Promise<Response> {
  const rows: Row[] = [];
  let after: string | undefined;
  for (;;) {
    const query = { ...filters, limit: String(PAGE), ...(after === undefined ? {} : { after }) };
    const response = await send(aliased, { query });
    if (!response.ok) return failed(response);
    const page = (await response.json()) as {
      readonly data: readonly Row[];
      readonly last_id: string;
      readonly has_more: boolean;
    };
    rows.push(...page.data);
    after = page.last_id;
    if (!page.has_more || rows.length >= count) return json(response, show(rows));
  }
}

function send(
  { call, request, path, other }: Aliased,
  { body, query = {} }: { readonly body?: JsonObject; readonly query?: Readonly<Record<string, string>> },
): Response | Promise<Response> {
  const headers = new Headers(request.headers);
  headers.delete("content-length");
  const content = other ?? (body === undefined ? undefined : JSON.stringify(body));
  const { origin } = new URL(request.url);
  return call(
    new Request(`${origin}${path}?${new URLSearchParams(query)}`, {
      method: request.method,
      headers,
      signal: request.signal,
      ...(content === undefined ? {} : { body: content }),
    }),
  );
}

/** An error of these clients is one text. */
async function failed(response: Response): Promise<Response> {
  const { error } = (await response.json()) as {
    readonly error: { readonly message: string; readonly code: string };
  };
  return json(response, { error: error.message, code: error.code });
}

function json(from: Response, body: object): Response {
  const headers = new Headers(from.headers);
  headers.delete("content-length");
  return new Response(JSON.stringify(body), { status: from.status, headers });
}

const withJob = (job: object) => ({ job: toJob(job as Job) });
const withSession = (session: object) => ({
  object: "session",
  session: toSession(session as Session),
});

/** Fields of a job that mean the same there. */
const JOB_FIELDS = [
  "name",
  "prompt",
  "schedule",
  "deliver",
  "script",
  "no_agent",
  "context_from",
  "workdir",
  "model",
  "reasoning_effort",
];

function fromJob(body: JsonObject): JsonObject {
  const { enabled, repeat, skill, skills = skill, enabled_toolsets: toolsets, provider, model } = body;
  const times = isRecord(repeat) ? repeat["times"] : repeat;
  const named = typeof provider === "string" && typeof model === "string" ? `${provider}:${model}` : model;
  return {
    ...some(body, JOB_FIELDS),
    ...(named === undefined ? {} : { model: named }),
    ...(times === undefined ? {} : { repeat: times }),
    ...(skills === undefined ? {} : { skills: typeof skills === "string" ? [skills] : skills }),
    ...(toolsets === undefined ? {} : { toolsets }),
    ...(typeof enabled === "boolean" ? { paused: !enabled } : {}),
  };
}

function toJob(job: Job): object {
  const { schedule, schedule_kind: kind, toolsets, state, ...rest } = job;
  return {
    ...rest,
    state,
    enabled: state === "scheduled" || state === "error",
    schedule: { kind, display: schedule, ...(kind === "cron" ? { expr: schedule } : {}) },
    schedule_display: schedule,
    enabled_toolsets: toolsets,
    ...times(job, ["next_run_at", "last_run_at", "paused_at", "created_at", "updated_at"]),
  };
}

function toSession(session: Session): object {
  const { created_at: createdAt, updated_at: updatedAt } = session;
  return { ...session, started_at: createdAt, last_active: updatedAt };
}

function toMessage({ sequence, role, text, reasoning, tool_calls: calls, ...rest }: SessionMessage): object {
  return {
    id: sequence,
    role,
    content: text,
    reasoning,
    tool_calls: calls,
    tool_call_id: rest.tool_call_id,
    timestamp: rest.created_at,
  };
}

/** Returns instants as ISO 8601. */
function times<T extends object>(of: T, names: readonly (keyof T & string)[]): JsonObject {
  const shown = (seconds: unknown) =>
    typeof seconds === "number" ? new Date(seconds * 1000).toISOString() : null;
  return Object.fromEntries(names.map((name) => [name, shown(of[name])]));
}

function some(body: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(names.flatMap((name) => (body[name] === undefined ? [] : [[name, body[name]]])));
}

function countIn(query: URLSearchParams, name: string, fallback: number, most: number): number {
  const text = query.get(name) ?? "";
  return /^\d{1,9}$/.test(text) ? Math.min(Number(text), most) : fallback;
}

const isTrue = (text: string | null): boolean => text === "true" || text === "1";
