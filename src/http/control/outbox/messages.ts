import type { BulkResult, Message } from "../../../../generated/http/client/types.gen.ts";
import { ServiceError, type ErrorCode } from "../../../base/errors.ts";
import { redact } from "../../../base/observe.ts";
import { headOf } from "../../../base/text.ts";
import {
  filesOfPayload,
  messageHint,
  shownStatus,
  statusOfShown,
  textOfPayload,
} from "../../../deliver/outbox/message.ts";
import { findAddressProblems, homesOf, platformsOf, resolveAddresses } from "../../../deliver/address.ts";
import { messagePayload, parseTarget } from "../../../deliver/target.ts";
import {
  dropMessage as drop,
  findMessage,
  fullMessage,
  firstPending,
  listMessages as readMessages,
  readPayloads,
  retryMessage as retry,
  runsBehind,
  type FullMessage,
  type MessageChange,
  type MessageRefusal,
  type OutboxMessage,
} from "../../../store/outbox/messages.ts";
import type { AttemptRecord } from "../../../store/outbox/outbox.ts";
import type { OutboxRow } from "../../../store/schema/tables.ts";
import { writeOrTry, type Tx } from "../../../store/store.ts";
import type { HttpContext, HttpDeps } from "../../deps.ts";
import type { HttpRequest, HttpResponse } from "../../edge/contract.ts";
import { eventCursor } from "../feed.ts";
import { platformNotReady } from "./platforms.ts";
import { idCursor, listBody, ownerFilter, requireScope, timeWindow } from "../page.ts";
import { actOnce, dryRunHeader, replayedHeader } from "../write.ts";

/** GET /v1/outbox: the newest first. */
export async function listMessages(
  { query, ctx }: HttpRequest<"listMessages", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listMessages">> {
  const { limit, status, platform, target, ref, include = [] } = query;
  const before = idCursor(query.after, ID_PREFIX);
  const hasText = include.includes("text");
  if (hasText) requireScope(ctx, SCOPE, "include");
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const rows = await readMessages(deps.store, {
    ...ownerFilter(ctx),
    ...timeWindow(query),
    limit: limit + 1,
    ...(before === undefined ? {} : { before }),
    ...(status === undefined ? {} : { statuses: status.map(statusOfShown) }),
    ...(platform === undefined ? {} : { platforms: platform }),
    ...(target === undefined ? {} : { target }),
    ...(ref === undefined ? {} : { ref }),
  });
  const shown = await showMessages(rows.slice(0, limit), deps);
  const ids = hasText ? [...shown.keys()] : [];
  const payloads = await readPayloads(deps.store, ids);
  const contentOf = (id: string) => {
    const { text, files } = showContent(payloads.get(id));
    return { text: text === null ? null : headOf(text, MAX_LISTED_CHARACTERS), files };
  };
  const show = ({ id }: OutboxMessage): Message => ({ ...(shown.get(id) as Message), ...contentOf(id) });
  return { status: 200, headers, body: listBody(rows, limit, { positionOf: ({ id }) => id, show }) };
}

const ID_PREFIX = "out_";
const SCOPE = "messages";
const MAX_LISTED_CHARACTERS = 2_000;

/** GET /v1/outbox/{message_id} */
export async function getMessage(
  { path, query, ctx }: HttpRequest<"getMessage", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getMessage">> {
  const { include = [] } = query;
  const hasText = include.includes("text");
  if (hasText) requireScope(ctx, SCOPE, "include");
  const message = await messageOf(path.message_id, ctx, deps);
  const content = showContent(hasText ? message.payload : undefined);
  return { status: 200, body: { ...(await showMessage(message, deps)), ...content } };
}

/** Returns the text and the names of the files in a payload, without secrets. */
function showContent(payload: string | undefined): Pick<Message, "text" | "files"> {
  if (payload === undefined) return { text: null, files: null };
  const text = textOfPayload(payload);
  return { text: text === undefined ? null : redact(text), files: filesOfPayload(payload).map(redact) };
}

/** POST /v1/outbox */
export async function sendMessage(
  { query, headers, body, ctx }: HttpRequest<"sendMessage", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"sendMessage">> {
  const { owner, name: actor } = ctx.identity;
  const extra = body.extra ?? {};
  const target = await targetOf(body.target, extra, deps);
  const enqueue = (tx: Tx) =>
    deps.store.outbox.enqueue(tx, { owner, target, payload: messagePayload(body.text, extra), actor });
  if (query.dry_run) {
    const message = await writeOrTry(deps.store, { dryRun: true }, async (tx) => {
      const id = await enqueue(tx);
      return (await tx.find("outbox", { id })) as OutboxRow;
    });
    return { status: 202, headers: dryRunHeader(true), body: await showMessage(fullMessage(message), deps) };
  }
  const once = { ctx, key: headers["idempotency-key"], operation: "sendMessage", content: body };
  const { result, isReplayed } = await actOnce<{ readonly id: string }>(once, deps, (record) =>
    deps.store.write(async (tx) => {
      const id = await enqueue(tx);
      await record(tx, { id });
      return { id };
    }),
  );
  return {
    status: 202,
    headers: { location: `/v1/outbox/${result.id}`, ...replayedHeader(isReplayed) },
    body: await showMessage(await messageOf(result.id, ctx, deps), deps),
  };
}

/** Returns the complete address. ServiceError `invalid_request` unless it is one, `platform_not_ready`. */
async function targetOf(
  text: string,
  extra: Readonly<Record<string, unknown>>,
  deps: HttpDeps,
): Promise<string> {
  const refuse = (problem: string) =>
    new ServiceError("invalid_request", `target cannot be used: ${problem}.`, { param: "target" });
  const [problem] = findAddressProblems(text);
  if (problem !== undefined) throw refuse(problem);
  const [platform = "", ...others] = platformsOf(text);
  const addresses = resolveAddresses(text, { extra, homes: homesOf(deps.delivery.targets) });
  const [address = platform] = addresses;
  if (others.length > 0 || addresses.length > 1 || NOT_ONE.has(text.trim()))
    throw refuse("it must name one chat; send a message for each");
  if (parseTarget(address).platform === "log") throw refuse("the log takes no messages of clients");
  const status = (await deps.delivery.platforms()).find(({ name }) => name === platform);
  if (status && status.status !== "ready") throw platformNotReady(status);
  return address;
}

/** Words for the chat of a request, and for the home channels of all platforms. */
const NOT_ONE: ReadonlySet<string> = new Set(["origin", "all"]);

/** POST /v1/outbox/{message_id}/retry */
export async function retryMessage(
  { path, headers, body, ctx }: HttpRequest<"retryMessage", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"retryMessage">> {
  const acceptsDuplicate = body.accept_duplicate === true;
  const key = headers["idempotency-key"];
  return changeOne({ operation: "retryMessage", id: path.message_id, key, acceptsDuplicate }, ctx, deps);
}

/** POST /v1/outbox/{message_id}/drop */
export async function dropMessage(
  { path, headers, ctx }: HttpRequest<"dropMessage", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"dropMessage">> {
  const key = headers["idempotency-key"];
  return changeOne({ operation: "dropMessage", id: path.message_id, key }, ctx, deps);
}

interface ChangeOne {
  readonly operation: "retryMessage" | "dropMessage";
  readonly id: string;
  readonly key: string | undefined;
  readonly acceptsDuplicate?: boolean;
}

async function changeOne({ operation, id, key, ...rest }: ChangeOne, ctx: HttpContext, deps: HttpDeps) {
  const once = { ctx, key, operation, content: [id, rest] };
  const { isReplayed } = await actOnce<{ readonly id: string }>(once, deps, async (record) => {
    const outcome = await ACTS[operation](deps.store, id, {
      ...rest,
      owner: ctx.identity.owner,
      actor: ctx.identity.name,
      changed: async (tx, row) => {
        await deps.delivery.changed(tx, row);
        await record(tx, { id });
      },
    });
    if (!isDone(outcome)) throw refusalOf(outcome, id);
    return { id };
  });
  return {
    status: 200 as const,
    headers: replayedHeader(isReplayed),
    body: await showMessage(await messageOf(id, ctx, deps), deps),
  };
}

const ACTS = { retryMessage: retry, dropMessage: drop, retryMessages: retry, dropMessages: drop } as const;

type Outcome = "retried" | "dropped" | MessageRefusal;

const isDone = (outcome: Outcome): outcome is "retried" | "dropped" =>
  outcome === "retried" || outcome === "dropped";

const CODES = {
  missing: "message_not_found",
  done: "message_not_retryable",
  changed: "message_not_retryable",
  uncertain: "message_not_retryable",
  leased: "message_being_sent",
} as const satisfies Readonly<Record<MessageRefusal, ErrorCode>>;

const WORDS: Readonly<Record<MessageRefusal, string>> = {
  missing: "does not exist",
  done: "is already delivered or dropped",
  changed: "has another status now",
  uncertain: "may have arrived. Check the chat; accept_duplicate: true sends it again",
  leased: "is being sent. Repeat the request when the attempt has ended",
};

function refusalOf(refusal: MessageRefusal, id: string): ServiceError {
  const param = refusal === "uncertain" ? { param: "accept_duplicate" } : {};
  return new ServiceError(CODES[refusal], `Message ${JSON.stringify(id)} ${WORDS[refusal]}.`, param);
}

/** POST /v1/outbox/retry */
export async function retryMessages(
  { query, headers, body, ctx }: HttpRequest<"retryMessages", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"retryMessages">> {
  const { accept_duplicate: accepted = false, ...choice } = body;
  if (choice.status?.includes("unknown") && !accepted) {
    const what =
      "Messages with the status unknown may have arrived. Send accept_duplicate: true to send them again.";
    throw new ServiceError("invalid_request", what, { param: "accept_duplicate" });
  }
  const request = {
    choice,
    key: headers["idempotency-key"],
    dryRun: query.dry_run,
    acceptsDuplicate: accepted,
  };
  return changeMany({ operation: "retryMessages", ...request }, ctx, deps);
}

/** POST /v1/outbox/drop */
export async function dropMessages(
  { query, headers, body, ctx }: HttpRequest<"dropMessages", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"dropMessages">> {
  const request = { choice: body, key: headers["idempotency-key"], dryRun: query.dry_run };
  return changeMany({ operation: "dropMessages", ...request }, ctx, deps);
}

type Choice = HttpRequest<"dropMessages", HttpContext>["body"];

interface ChangeMany {
  readonly operation: "retryMessages" | "dropMessages";
  readonly choice: Choice;
  readonly key: string | undefined;
  readonly dryRun: boolean;
  readonly acceptsDuplicate?: boolean;
}

async function changeMany(request: ChangeMany, ctx: HttpContext, deps: HttpDeps) {
  const { operation, choice, key, dryRun, acceptsDuplicate } = request;
  checkChoice(choice);
  const rest = acceptsDuplicate === undefined ? {} : { acceptsDuplicate };
  const act = () => changeAll(request, { ...rest, dryRun }, ctx, deps);
  if (dryRun) return { status: 200 as const, headers: dryRunHeader(true), body: await act() };
  const once = { ctx, key, operation, content: [choice, rest] };
  const { result, isReplayed } = await actOnce<BulkResult>(once, deps, async (record) => {
    const made = await act();
    // A crash before this makes the change again, which then finds nothing to do.
    if (key !== undefined) await deps.store.write((tx) => record(tx, made));
    return made;
  });
  const headers = replayedHeader(isReplayed);
  return { status: 200 as const, headers, body: result };
}

/** A filter that is forgotten would change every message. */
function checkChoice({ ids, status, ...filters }: Choice): void {
  if (ids === undefined && status === undefined) {
    const what = "The request names no messages. Send ids, or status with further filters.";
    throw new ServiceError("invalid_request", what, { param: "status" });
  }
  const [stray] = status === undefined ? Object.keys(filters) : [];
  if (ids !== undefined && (status !== undefined || stray !== undefined)) {
    const param = stray ?? "status";
    throw new ServiceError("invalid_request", `Send either ids or ${param}, not both.`, { param });
  }
}

async function changeAll(
  { operation, choice }: ChangeMany,
  change: MessageChange,
  { identity: { owner, name: actor } }: HttpContext,
  deps: HttpDeps,
): Promise<BulkResult> {
  const { ids, hasMore } = await choose(choice, owner, deps);
  const options = { ...change, owner, actor, changed: deps.delivery.changed };
  // Each is a transaction of its own; they are committed in groups, between those of the running service.
  const outcomes = await Promise.all(
    ids.map(async (id) => ({
      id,
      outcome: await ACTS[operation](deps.store, id, {
        ...options,
        ...(choice.status === undefined ? {} : { statuses: choice.status }),
      }),
    })),
  );
  // What a concurrent request changed matches the filter no more.
  const matched = outcomes.filter(({ outcome }) => outcome !== "changed");
  const refused = matched.flatMap(({ id, outcome }) =>
    isDone(outcome) ? [] : [{ id, code: CODES[outcome] }],
  );
  return {
    matched: matched.filter(({ outcome }) => outcome !== "missing").length,
    done: matched.length - refused.length,
    refused,
    has_more: hasMore,
  };
}

const MAX_BULK = 1_000;

async function choose(
  { ids, status, platform, from, to, limit = MAX_BULK }: Choice,
  owner: string,
  { store }: HttpDeps,
): Promise<{ readonly ids: readonly string[]; readonly hasMore: boolean }> {
  if (ids !== undefined) return { ids: [...new Set(ids)], hasMore: false };
  const rows = await readMessages(store, {
    owner,
    statuses: status ?? [],
    isOldestFirst: true,
    limit: limit + 1,
    ...(platform === undefined ? {} : { platforms: [platform] }),
    ...timeWindow({ ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }),
  });
  return { ids: rows.slice(0, limit).map(({ id }) => id), hasMore: rows.length > limit };
}

/** Returns a message of the caller's owner. ServiceError `message_not_found`. */
async function messageOf(id: string, { identity }: HttpContext, { store }: HttpDeps): Promise<FullMessage> {
  const message = await findMessage(store, id);
  if (message && (identity.allOwners || message.owner === identity.owner)) return message;
  throw refusalOf("missing", id);
}

async function showMessage(message: FullMessage, deps: HttpDeps): Promise<Message> {
  const shown = (await showMessages([message], deps)).get(message.id) as Message;
  return { ...shown, attempt_log: message.attemptLog.map(toAttempt) };
}

/** Returns the messages as they are sent, by id, without their text and their attempts. */
async function showMessages(
  messages: readonly OutboxMessage[],
  { store }: HttpDeps,
): Promise<ReadonlyMap<string, Message>> {
  const refs = messages.flatMap(({ ref }) => (ref === undefined || isRun(ref) ? [] : [ref]));
  const keys = messages.flatMap(({ isBlocked, orderingKey }) =>
    isBlocked && orderingKey !== null ? [orderingKey] : [],
  );
  const [runs, first] = [
    await runsBehind(store, [...new Set(refs)]),
    await firstPending(store, [...new Set(keys)]),
  ];
  const show = (message: OutboxMessage): Message => {
    const { ref = "", isBlocked, orderingKey } = message;
    const runId = isRun(ref) ? ref : (runs.get(ref) ?? null);
    return toMessage(message, { runId, waitsFor: (isBlocked && first.get(orderingKey ?? "")) || null });
  };
  return new Map(messages.map((message) => [message.id, show(message)]));
}

const isRun = (ref: string): boolean => ref.startsWith("run_");

function toMessage(
  message: OutboxMessage,
  now: { readonly runId: string | null; readonly waitsFor: string | null },
): Message {
  const { id, owner, target, status, ref = null, attempts, partsSent, error, createdAtMs } = message;
  const hint = messageHint(message, {
    retry: `\`POST /v1/outbox/${id}/retry\`${status === "unknown" ? " with accept_duplicate" : ""}`,
    drop: `\`POST /v1/outbox/${id}/drop\``,
  });
  return {
    object: "agent.message",
    id,
    owner,
    platform: parseTarget(target).platform,
    target: redact(target),
    status: shownStatus(status),
    ref,
    run_id: now.runId,
    delivery_id: ref?.startsWith("dlv_") ? ref : null,
    occurrence_id: ref?.startsWith("occ_") ? ref : null,
    attempts,
    attempt_log: null,
    parts_sent: partsSent,
    due_at: seconds(message.dueAtMs),
    waits_for: now.waitsFor,
    last_error: error === undefined ? null : redact(error),
    hint: hint ?? null,
    text: null,
    files: null,
    created_at: createdAtMs / 1000,
    ended_at: seconds(message.endedAtMs),
  };
}

function toAttempt({
  atMs,
  tookMs,
  outcome,
  error,
}: AttemptRecord): NonNullable<Message["attempt_log"]>[number] {
  return {
    started_at: atMs / 1000,
    ended_at: tookMs === undefined ? null : (atMs + tookMs) / 1000,
    outcome,
    error: error === undefined ? null : redact(error),
  };
}

const seconds = (ms: number | undefined): number | null => (ms === undefined ? null : ms / 1000);
