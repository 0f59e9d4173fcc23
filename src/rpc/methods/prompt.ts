/** Methods that submit prompts. */
import type { BusyMode, Prompt, Submitted } from "../../agent/run/run.ts";
import { saveSession, promptsOf, truncateAt } from "../../agent/session/sessions.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { RpcCall, RpcGroup, RpcContext, RpcDeps, RpcPeer } from "../deps.ts";
import { attachOptions } from "../session/files.ts";
import {
  putBackImages,
  takeImages,
  type QueuedImage,
  MAX_QUEUED_IMAGES,
  fitsPrompt,
  QUEUED_LIMIT,
  liveSession,
  type OpenSession,
} from "../session/session.ts";
import { messageSeq } from "../session/transcript.ts";
import { readReferences } from "../session/references.ts";
import { pasteFolder } from "../session/saved-files.ts";
import { taskIdOf, turnIdOf } from "../events/payloads.ts";
import { notifyChanged } from "../events/hub.ts";
import { readAttachment, type AttachmentOptions } from "../../agent/attachments/attachment.ts";
import type { Attachment, UserMessage } from "../../agent/engine.ts";
import { sha256 } from "../../base/text.ts";
import type { LedgerRow } from "../../store/schema/tables.ts";
import type { Directive as Shown } from "../../../generated/gateway/types/types.gen.ts";
import type { Directive } from "../../agent/agent.ts";

type Call = RpcCall<"prompt.submit", RpcContext>;
type Answer = Awaited<ReturnType<RpcGroup<"prompt.submit", RpcContext>["prompt.submit"]>>;

export const promptMethods: RpcGroup<"prompt.submit" | "prompt.background", RpcContext> = {
  "prompt.submit": async (call) => {
    const { params, ctx } = call;
    const session = await liveSession(ctx, params.session_id);
    const once = onceFor(session, params);
    const earlier = once && (await findTurn(ctx.deps.store, once));
    // Hold the session before anything starts: the answer precedes `message.start`.
    call.hold(session.id);
    await ctx.peer.attach(session.id);
    if (earlier !== undefined) return repeated(ctx.deps, earlier);
    const waiting = takeImages(session.live);
    try {
      return await submit(call, session, { waiting, once });
    } catch (error) {
      putBackImages(session.live, waiting);
      if (error instanceof RepeatedTurn) return repeated(ctx.deps, error.made);
      throw error;
    }
  },

  "prompt.background": async ({ params, ctx }) => {
    const { id, owner, live, row } = await liveSession(ctx, params.session_id);
    if (params.text.trim() === "") throw textRequired();
    await saveSession(ctx.deps.store, live);
    if (!row) notifyChanged(ctx.deps, owner);
    const { runId } = await ctx.deps.agent.background(id, owner, params.text);
    return { task_id: taskIdOf(runId) };
  },
};

interface PromptContext {
  /** Images that were attached before. */
  readonly waiting: readonly QueuedImage[];
  readonly once: TurnOnce | undefined;
}

async function submit(
  { params, ctx, signal }: Call,
  session: OpenSession,
  context: PromptContext,
): Promise<Answer> {
  const { deps } = ctx;
  const { settings, switches } = deps.agent.deps;
  const options = () => attachOptions(ctx, session);
  const written = await promptOf(options, { ...params, waiting: context.waiting });
  const message = await withReferences({ ctx, signal }, session, { message: written, options });
  if (message.text.trim() === "" && !message.attachments?.length) throw textRequired();
  const sentMode = takeSentMode(ctx.peer, { sessionId: session.id, text: params.text });
  const requested = params.queued === true ? "queue" : (params.when_busy ?? sentMode);
  const whenBusy: BusyMode = requested ?? switches.whenBusy ?? settings.whenBusy;
  // The host stays connected and gets an event when the turn starts, so at the run limit its prompt waits.
  const slot = whenBusy === "reject" ? {} : { slot: { group: "rpc" } };
  const submitted = await deps.agent.runs.submit({
    address: { owner: session.owner, id: session.id },
    apiKey: ctx.peer.identity.key,
    seed: session.live.seed,
    kind: "run",
    input: { prompt: [message], settings: {}, answerable: true, isDetached: true, ...slot },
    whenBusy,
    ...recordedWith(deps.store, params, context.once),
  });
  if (!session.row) notifyChanged(deps, session.owner);
  return answerOf(submitted);
}

/** Any text with a reference has one of these. */
const MAY_REFER = /@|\[Pasted text #/;

/** Attaches what the text refers to. Notifies the host of what cannot be attached. */
async function withReferences(
  { ctx, signal }: Pick<Call, "ctx" | "signal">,
  session: OpenSession,
  {
    message,
    options,
  }: { readonly message: UserMessage; readonly options: () => ReturnType<typeof attachOptions> },
): Promise<UserMessage> {
  const { deps, peer } = ctx;
  if (!MAY_REFER.test(message.text)) return message;
  const found = await readReferences(message.text, { ...options(), pasteFolder: pasteFolder(deps), signal });
  for (const text of found.problems) {
    const payload = { kind: "warn", text };
    peer.event({ type: "status.update", session_id: session.id, ts: deps.clock.now(), payload });
  }
  if (found.attachments.length === 0) return message;
  const attachments = [...(message.attachments ?? []), ...found.attachments];
  if (!fitsPrompt(attachments)) throw tooMany();
  return { ...message, attachments };
}

/** Returns what is written in the prompt's transaction: its client_turn_id, and a truncation. */
function recordedWith(
  store: Store,
  params: Call["params"],
  once: TurnOnce | undefined,
): Pick<Prompt, "alsoRecord" | "alsoSteer"> {
  const { confirm_truncate: isConfirmed = false } = params;
  const { truncate_before_user_ordinal: ordinal, truncate_before_message_id: messageId } = params;
  const prompt =
    messageId === undefined ? ordinal : { seq: messageSeq(messageId, "truncate_before_message_id") };
  if (prompt !== undefined) {
    return {
      alsoRecord: async (tx, { id: runId, session_id: sessionId }) => {
        await once?.record(tx, store, { runId, isSteer: false });
        await truncateBefore(tx, store, { sessionId, prompt, isConfirmed });
      },
    };
  }
  if (!once) return {};
  return {
    alsoRecord: (tx, { id: runId }) => once.record(tx, store, { runId, isSteer: false }),
    alsoSteer: (tx, runId) => once.record(tx, store, { runId, isSteer: true }),
  };
}

function answerOf({ status, runId, queuePosition }: Submitted): Answer {
  const turn_id = turnIdOf(runId);
  if (status === "running") return { status: "streaming", turn_id };
  if (status === "steered") return { status, turn_id };
  return {
    status: "queued",
    turn_id,
    ...(queuePosition === undefined ? {} : { queue_position: queuePosition }),
  };
}

/** Returns the answer for a turn that this client_turn_id already started. */
async function repeated({ store }: RpcDeps, { runId, isSteer }: MadeTurn): Promise<Answer> {
  const turn_id = turnIdOf(runId);
  if (isSteer) return { status: "steered", turn_id, duplicate: true };
  const run = await store.find("runs", { id: runId });
  return { status: run?.status === "queued" ? "queued" : "streaming", turn_id, duplicate: true };
}

function textRequired(): ServiceError {
  return new ServiceError("text_required", "text must not be empty.", { param: "text" });
}

/** Where paths start, and what may be read from there. */
type AttachPaths = Pick<AttachmentOptions, "cwd" | "roots" | "refuse">;

interface PromptInput {
  readonly text: string | readonly Readonly<Record<string, unknown>>[];
  readonly images?: readonly string[];
  /** Images that were attached before. */
  readonly waiting?: readonly QueuedImage[];
}

/**
 * Returns the prompt with its attachments: queued images, and images that the prompt names. ServiceError
 * `bad_value` for a part of an unknown kind, `too_large` for too many images, `not_found_or_unsupported` for one
 * that cannot be read.
 */
async function promptOf(options: () => AttachPaths, input: PromptInput): Promise<UserMessage> {
  const parts = typeof input.text === "string" ? [] : input.text;
  const text = typeof input.text === "string" ? input.text : parts.map(textIn).filter(Boolean).join("\n\n");
  const sources = [...parts.flatMap(sourceIn), ...(input.images ?? []).map((source): Source => ({ source }))];
  const waiting = (input.waiting ?? []).map(({ attachment }) => attachment);
  if (waiting.length + sources.length > MAX_QUEUED_IMAGES) throw tooMany();
  const attachments: Attachment[] = [...waiting];
  for (const { source, name } of sources) {
    const attachment = await read(options(), source);
    attachments.push(name === undefined ? attachment : { ...attachment, name });
    if (!fitsPrompt(attachments)) throw tooMany();
  }
  return { role: "user", text, ...(attachments.length > 0 ? { attachments } : {}) };
}

function tooMany(): ServiceError {
  return new ServiceError("too_large", `A prompt may have at most ${QUEUED_LIMIT}.`, {
    param: "images",
  });
}

/** ServiceError `not_found_or_unsupported`. */
async function read(options: AttachPaths, source: string): Promise<Attachment> {
  try {
    return (await readAttachment(source, options)).attachment;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ServiceError("not_found_or_unsupported", error.message, { param: "images", cause: error });
  }
}

type Part = Readonly<Record<string, unknown>>;

function textIn(part: Part): string {
  return isText(part) && typeof part["text"] === "string" ? part["text"] : "";
}

interface Source {
  /** A path or a data URL. */
  readonly source: string;
  /** Instead of the one of its file. */
  readonly name?: string;
}

const MAX_FILENAME_CHARACTERS = 256;

function sourceIn(part: Part, index: number): readonly Source[] {
  if (isText(part)) return [];
  const { image_url: url, url: plain, path, data } = part;
  const nested = typeof url === "object" && url !== null ? (url as { readonly url?: unknown }).url : url;
  const source = [nested, plain, path, data].find((value) => typeof value === "string");
  const { filename } = part;
  const name =
    typeof filename === "string"
      ? (filename.split(/[\\/]/).at(-1) ?? "").slice(0, MAX_FILENAME_CHARACTERS).trim()
      : "";
  if (typeof source === "string") return [{ source, ...(name === "" ? {} : { name }) }];
  throw new ServiceError("bad_value", `text[${index}] is neither text nor an image.`, {
    param: `text[${index}]`,
  });
}

function isText({ type }: Part): boolean {
  return type === "text" || type === "input_text";
}

export interface TurnOnce {
  readonly scope: string;
  readonly key: string;
  readonly fingerprint: string;
  /** Claims the id for a turn, in the transaction that creates the turn. RepeatedTurn when another turn has it. */
  record(tx: Tx, store: Store, made: MadeTurn): Promise<void>;
}

/** The outcome of a prompt. */
export interface MadeTurn {
  readonly runId: string;
  /** True when the text was steered into a running turn. */
  readonly isSteer: boolean;
}

/** Thrown inside the transaction of a turn when an earlier turn has the same client_turn_id. */
class RepeatedTurn extends Error {
  override readonly name = "RepeatedTurn";
  readonly made: MadeTurn;

  constructor(made: MadeTurn) {
    super("An earlier turn has this client_turn_id.");
    this.made = made;
  }
}

const KEEP_MS = 7 * 86_400_000;

/** Returns the claim of a client_turn_id; undefined without one. */
function onceFor(
  { id, owner }: Pick<OpenSession, "id" | "owner">,
  prompt: { readonly client_turn_id?: string; readonly text: unknown; readonly images?: readonly string[] },
): TurnOnce | undefined {
  const { client_turn_id: key, text, images = [] } = prompt;
  if (key === undefined) return undefined;
  const name = { scope: `rpc-turn:${owner}:${id}`, key };
  const fingerprint = sha256(JSON.stringify([text, images]));
  const record: TurnOnce["record"] = async (tx, store, { runId, isSteer }) => {
    const result = { run_id: runId, ...(isSteer ? { steer: true } : {}) };
    const claim = await store.ledger.record(tx, { ...name, fingerprint, result, keepMs: KEEP_MS });
    if (!claim.claimed) throw new RepeatedTurn(madeOf(claim.row, fingerprint));
  };
  return { ...name, fingerprint, record };
}

/** Finds the turn of an earlier request with this id. ServiceError `client_turn_id_conflict` for another text. */
async function findTurn(store: Store, once: TurnOnce): Promise<MadeTurn | undefined> {
  const row = await store.find("ledger", { scope: once.scope, key: once.key });
  return row === undefined ? undefined : madeOf(row, once.fingerprint);
}

function madeOf(row: LedgerRow, fingerprint: string): MadeTurn {
  if (row.fingerprint !== fingerprint) {
    throw new ServiceError(
      "client_turn_id_conflict",
      "Another prompt used this client_turn_id. Use a new one for each prompt.",
      { param: "client_turn_id" },
    );
  }
  const made = JSON.parse(row.result ?? "{}") as { readonly run_id: string; readonly steer?: boolean };
  return { runId: made.run_id, isSteer: made.steer === true };
}

/**
 * Removes a prompt, counted from 0 or with that number, and everything after it, inside `tx`: together with the prompt that replaces
 * it, or not at all. ServiceError `stale_target` when the prompt does not exist or was compressed,
 * `empty_truncation` and `unconfirmed_truncation` without a confirmation, `session_busy`.
 */
async function truncateBefore(
  tx: Tx,
  store: Store,
  target: {
    readonly sessionId: string;
    readonly prompt: number | { readonly seq: number };
    readonly isConfirmed: boolean;
  },
): Promise<void> {
  const { sessionId, prompt, isConfirmed } = target;
  const prompts = await promptsOf(tx, sessionId);
  const session = await tx.find("sessions", { id: sessionId });
  const ordinal = typeof prompt === "number" ? prompt : prompts.findIndex(({ seq }) => seq === prompt.seq);
  const first = prompts[ordinal];
  if (!first || !session || first.seq <= session.context_seq) throw stale(prompts.length);
  if (!isConfirmed) {
    const turns = prompts.length - ordinal;
    const what = `This removes ${turns} prompts and their answers. Confirm it with confirm_truncate.`;
    throw new ServiceError(ordinal === 0 ? "empty_truncation" : "unconfirmed_truncation", what, {
      param: "confirm_truncate",
    });
  }
  await truncateAt(tx, store, { sessionId, seq: first.seq });
}

function stale(prompts: number): ServiceError {
  const what = `The prompt can no longer be removed. The session has ${prompts} prompts, and compressed ones stay.`;
  return new ServiceError("stale_target", what, { param: "truncate_before_user_ordinal" });
}

/** A message that a directive asked the host to submit with a busy mode. */
interface Sent {
  /** Undefined: the command had no session. */
  readonly sessionId: string | undefined;
  readonly message: string;
  readonly whenBusy: "queue";
}

/** The newest one of each connection. */
const sent = new WeakMap<RpcPeer, Sent>();

/** Returns the directive as the spec defines it. `session_id` makes the host continue in another session. */
export function showDirective(
  done: Directive,
  { peer, sessionId }: { readonly peer: RpcPeer; readonly sessionId: string | undefined },
): Shown {
  if (done.type === "exec") {
    const { type, output, sessionId: other } = done;
    return { type, output, ...(other === undefined ? {} : { session_id: other }) };
  }
  if (done.type !== "send" || done.whenBusy === undefined) return done;
  const { whenBusy, ...rest } = done;
  sent.set(peer, { sessionId, message: done.message, whenBusy });
  return { ...rest, when_busy: whenBusy };
}

/**
 * Returns the busy mode that a directive chose for this prompt; undefined for other prompts. Some hosts submit a
 * directive's message without its `when_busy`.
 */
function takeSentMode(
  peer: RpcPeer,
  prompt: { readonly sessionId: string; readonly text: unknown },
): "queue" | undefined {
  const last = sent.get(peer);
  sent.delete(peer);
  if (!last || last.message !== prompt.text) return undefined;
  return (last.sessionId ?? prompt.sessionId) === prompt.sessionId ? last.whenBusy : undefined;
}
