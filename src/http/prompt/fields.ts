/** The fields that requests for chats, responses and runs share. */
import type { ModelRef } from "../../agent/model.ts";
import type { ToolChoice, ToolSpec, Attachment, Message } from "../../agent/engine.ts";
import type { Webhook, MessageContent } from "../../../generated/http/client/types.gen.ts";
import type { Prompt, RunInput } from "../../agent/run/run.ts";
import { recordWebhook } from "./run-webhook.ts";
import { ServiceError } from "../../base/errors.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import { checkSessionName, type SessionAddress } from "../../agent/session/session.ts";
import type { Identity } from "../edge/access.ts";
import { isRecord } from "../../base/data.ts";
import { SchemaSet } from "../../base/schema.ts";
import { readAttachment } from "../../agent/attachments/attachment.ts";
import { parseJson } from "../edge/input.ts";
import { guardedFetch } from "../../base/net/fetch.ts";

/**
 * Returns the requested model; undefined for the session's own or the default. The header wins over the body. A
 * header must resolve. A body that does not resolve is an error if `isStrict`, else as configured, because many
 * clients send a fixed name. ServiceError `model_not_found`.
 */
export function requestedModel(
  requested: {
    readonly header: string | undefined;
    readonly body: string | undefined;
    readonly isStrict?: boolean;
  },
  { models, settings }: HttpDeps,
): ModelRef | undefined {
  const { header, body, isStrict = settings.unknownModel === "reject" } = requested;
  if (header !== undefined) {
    const found = isNamed(header, models) ? models.resolve(header) : undefined;
    if (!found) throw modelNotFound(header, "X-Agent-Model");
    return found;
  }
  if (body === undefined || body === settings.modelName) return undefined;
  const found = models.resolve(body);
  if (!found && isStrict) throw modelNotFound(body, "model");
  return found;
}

/** Returns true unless `name` starts with the name of a provider that does not exist. */
function isNamed(name: string, { providers }: HttpDeps["models"]): boolean {
  const prefix = name.includes(":") ? name.slice(0, name.indexOf(":")) : undefined;
  return prefix === undefined || providers.some((each) => each.name === prefix || each.models.includes(name));
}

function modelNotFound(name: string, param: string): ServiceError {
  return new ServiceError(
    "model_not_found",
    `No configured provider has a model ${JSON.stringify(name)}. Use \`provider:model\`, or omit the model.`,
    { param },
  );
}

/** Checks the requested toolsets. ServiceError `invalid_request` for one that this server does not have. */
export function checkToolsets(
  requested: readonly string[] | undefined,
  param: string,
  { settings }: HttpDeps,
): readonly string[] | undefined {
  for (const [index, name] of (requested ?? []).entries()) {
    if (settings.toolsets.includes(name)) continue;
    const what = `${JSON.stringify(name)} is not a toolset of this server: ${settings.toolsets.join(", ")}.`;
    throw new ServiceError("invalid_request", what, { param: `${param}[${index}]` });
  }
  return requested;
}

/** Checks the size of a text. ServiceError `string_above_max_length`: text is never cut. */
export function checkText(text: string, param: string, { settings }: HttpDeps): void {
  const bytes = byteLength(text);
  if (bytes <= settings.maxTextBytes) return;
  const what = `${param} has ${bytes} bytes of text; the limit is ${settings.maxTextBytes} (limits.max_text_bytes).`;
  throw new ServiceError("string_above_max_length", what, { param });
}

/** Checks the number of messages or items. ServiceError `invalid_request`. */
export function checkCount(count: number, param: string, { settings }: HttpDeps): void {
  if (count <= settings.maxMessages) return;
  const what = `${param} has ${count} entries; the limit is ${settings.maxMessages} (limits.max_messages).`;
  throw new ServiceError("invalid_request", what, { param });
}

/** A function that a client declares. */
export interface DeclaredTool {
  readonly name: string;
  readonly description?: string | null | undefined;
  readonly parameters?: Readonly<Record<string, unknown>> | null | undefined;
}

/** A tool choice of either format. */
export type RequestedChoice =
  | "none"
  | "auto"
  | "required"
  | { readonly name: string }
  | { readonly mode: "auto" | "required"; readonly allowed: readonly string[] };

/** Converts the client's tools. With the choice `none`, no tool is passed on. ServiceError `invalid_request`. */
export function clientTools(
  tools: readonly DeclaredTool[],
  requested: RequestedChoice | undefined,
): { readonly clientTools?: readonly ToolSpec[]; readonly toolChoice?: ToolChoice } {
  const all = tools.map((tool, index) => toSpec(tool, index, tools));
  const named = namesOf(requested);
  const unknown = named?.find((name) => !all.some((spec) => spec.name === name));
  if (unknown !== undefined) {
    const what = `tool_choice names ${JSON.stringify(unknown)}, which tools does not list.`;
    throw new ServiceError("invalid_request", what, { param: "tool_choice" });
  }
  const specs = isAllowed(requested) ? all.filter(({ name }) => requested.allowed.includes(name)) : all;
  const choice = isAllowed(requested) ? requested.mode : requested;
  if (choice === "required" && specs.length === 0) {
    const what = "tool_choice is required, but it allows no tool.";
    throw new ServiceError("invalid_request", what, { param: "tool_choice" });
  }
  if (specs.length === 0 || choice === "none") return {};
  if (choice === undefined || choice === "auto") return { clientTools: specs };
  return { clientTools: specs, toolChoice: choice === "required" ? choice : { tool: choice.name } };
}

type AllowedTools = Extract<RequestedChoice, { readonly mode: string }>;

function isAllowed(choice: RequestedChoice | undefined): choice is AllowedTools {
  return typeof choice === "object" && "allowed" in choice;
}

function namesOf(choice: RequestedChoice | undefined): readonly string[] | undefined {
  if (typeof choice !== "object") return undefined;
  return "allowed" in choice ? choice.allowed : [choice.name];
}

/** A response format of either API, flat. */
export interface RequestedFormat {
  readonly type: string;
  readonly name?: string | undefined;
  readonly description?: string | null | undefined;
  readonly schema?: Readonly<Record<string, unknown>> | null | undefined;
  readonly strict?: boolean | null | undefined;
}

/**
 * Converts the requested format of the answer; nothing for text. `param` is its path in the request. ServiceError
 * `unsupported_parameter`, and `invalid_request` for a schema that is not one.
 */
export function outputFormat(
  requested: RequestedFormat | null | undefined,
  param: string,
): Pick<RunInput, "outputFormat"> {
  if (requested == null || requested.type === "text") return {};
  const { type, name, description, schema, strict } = requested;
  if (type !== "json_object" && type !== "json_schema") {
    const what = `${param} ${JSON.stringify(type.slice(0, 64))} is not supported. Use text, json_object or json_schema.`;
    throw new ServiceError("unsupported_parameter", what, { param: `${param}.type` });
  }
  if (type === "json_schema" && name === undefined) {
    const what = `${param}.json_schema is required with the type json_schema.`;
    throw new ServiceError("missing_required_parameter", what, { param: `${param}.json_schema` });
  }
  if (type === "json_object" || !schema) return { outputFormat: {} };
  checkSchema(schema, param);
  return {
    outputFormat: {
      schema,
      isStrict: strict === true,
      ...(name === undefined ? {} : { name }),
      ...(description == null ? {} : { description }),
    },
  };
}

function checkSchema(schema: Readonly<Record<string, unknown>>, param: string): void {
  try {
    new SchemaSet({}).check(schema, {});
  } catch (cause) {
    const what = `The schema in ${param} is not a valid JSON Schema.`;
    throw new ServiceError("invalid_request", what, { param, cause });
  }
}

function toSpec(tool: DeclaredTool, index: number, all: readonly DeclaredTool[]): ToolSpec {
  const { name, description, parameters } = tool;
  if (all.findIndex((other) => other.name === name) !== index) {
    const what = `tools[${index}] repeats the name ${JSON.stringify(name)}.`;
    throw new ServiceError("invalid_request", what, { param: `tools[${index}]` });
  }
  if (parameters && parameters["type"] !== undefined && parameters["type"] !== "object") {
    const what = `The parameters of tools[${index}] must be a JSON Schema of type object.`;
    throw new ServiceError("invalid_request", what, { param: `tools[${index}]` });
  }
  return {
    name,
    description: description ?? "",
    parameters: { properties: {}, ...parameters, type: "object" },
  };
}

/** Clients of this API can answer approvals. Passwords, secrets and free text have no operation here. */
export function approvals(mode: "wait" | "deny" | undefined): Pick<RunInput, "answerable" | "onlyApprovals"> {
  return mode === "deny" ? { answerable: false } : { answerable: true, onlyApprovals: true };
}

/** Validates and encodes the completion webhook of a run. ServiceError of {@link recordWebhook}. */
export function requestedWebhook(
  requested: Webhook | undefined,
  param: string,
  { settings }: HttpDeps,
): { readonly webhook?: string } {
  if (requested === undefined) return {};
  const { webhookSecret, webhookAllowedHosts, webhookAttempts } = settings;
  const rules = {
    hasSecret: webhookSecret !== undefined,
    allowedPrivateHosts: webhookAllowedHosts,
    maxAttempts: webhookAttempts,
  };
  return { webhook: recordWebhook(requested, rules, { param }) };
}

/** Returns the UTF-8 length. Text far below the limit in UTF-16 units is not counted. */
function byteLength(text: string): number {
  return text.length * 3 < 65_536 ? text.length : new TextEncoder().encode(text).length;
}

export interface SessionHeaders {
  readonly "x-agent-session-id"?: string;
  readonly "x-agent-session-key"?: string;
}

/** The session key of the body, and the path of the session fields in it. */
export interface BodyNames {
  readonly key?: string | undefined;
  /** Default `agent.` */
  readonly path?: string;
}

/**
 * Returns the session address of a request; headers win over the body. ServiceError `invalid_session_id`,
 * `invalid_session_key`, and `auth_required_for_session` while keys are off, because every caller could then read
 * every session.
 */
export function sessionAddress(
  identity: Identity,
  headers: SessionHeaders,
  bodyId: string | undefined,
  body: BodyNames = {},
): SessionAddress {
  const headerId = headers["x-agent-session-id"];
  const headerKey = headers["x-agent-session-key"];
  const id = headerId ?? bodyId;
  const key = headerKey ?? body.key;
  const { path = "agent." } = body;
  if (id === undefined && key === undefined) return { owner: identity.owner };
  if (!identity.authenticated) {
    throw new ServiceError(
      "auth_required_for_session",
      "Sessions need an API key. Configure api_server.key, or omit the session headers.",
    );
  }
  // The spec limits the headers.
  if (id !== undefined && headerId === undefined) checkSessionName("id", id, `${path}session_id`);
  if (key !== undefined && headerKey === undefined) checkSessionName("key", key, `${path}session_key`);
  return {
    owner: identity.owner,
    ...(id === undefined ? {} : { name: id }),
    ...(key === undefined ? {} : { key }),
  };
}

/** Returns the key of a prompt, whose limits apply to its run. */
export function withKey({ identity }: HttpContext): Partial<Pick<Prompt, "apiKey">> {
  return identity.authenticated ? { apiKey: identity.name } : {};
}

/** The content of a message: its text, and its attachments, not loaded yet. */
export interface Content {
  readonly text: string;
  readonly sources: readonly AttachmentSource[];
}

/** An image or file of a request: a data URL, or a web address of an image. */
export interface AttachmentSource {
  readonly kind: "image" | "file";
  readonly url: string;
  readonly name?: string;
  /** Path of the attachment in the request. */
  readonly param: string;
}

/**
 * Splits the content of a message in the chat or the responses format. ServiceError `invalid_content_part`,
 * `unsupported_content_type` and `invalid_image_url`, with the part.
 */
export function splitContent(content: MessageContent, param: string): Content {
  if (typeof content === "string") return { text: content, sources: [] };
  let text = "";
  const sources: AttachmentSource[] = [];
  for (const [index, part] of content.entries()) {
    const read = readPart(part, `${param}[${index}]`);
    if (typeof read === "string") text += read;
    else sources.push(read);
  }
  return { text, sources };
}

/**
 * Returns the text of content that may hold nothing else. ServiceError as {@link splitContent}, and for any other
 * part.
 */
export function textContent(content: MessageContent, param: string): string {
  const { text, sources } = splitContent(content, param);
  const [first] = sources;
  if (!first) return text;
  throw invalidPart(first.param, `is of kind ${first.kind}; only text is allowed here`);
}

/** Attachments that belong to the message at an index of a list. */
export interface PendingAttachments {
  readonly at: number;
  readonly sources: readonly AttachmentSource[];
}

/**
 * Loads the attachments of a request, and adds them to their messages. ServiceError as {@link splitContent}, and for
 * broken or too large ones.
 */
export async function attachTo(
  messages: Message[],
  pending: readonly PendingAttachments[],
  options: { readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<void> {
  const all = pending.flatMap(({ sources }) => sources);
  const surplus = all[MAX_ATTACHMENTS];
  if (surplus) {
    throw invalidPart(
      surplus.param,
      `is one too many: a request may hold ${MAX_ATTACHMENTS} images and files`,
    );
  }
  const loaded = new Map<AttachmentSource, Attachment>();
  for (const source of all) loaded.set(source, await load(source, options));
  for (const { at, sources } of pending) {
    const message = messages[at];
    const attachments = sources.flatMap((source) => loaded.get(source) ?? []);
    if (message?.role === "user") messages[at] = { ...message, attachments };
  }
}

/** Parses the arguments of an earlier call. A model's broken call is part of the history, not an error of this request. */
export function parseArguments(json: string): unknown {
  try {
    return parseJson(json);
  } catch {
    return { arguments: json };
  }
}

const MAX_ATTACHMENTS = 32;
const FETCH_TIMEOUT_MS = 15_000;

async function load(
  source: AttachmentSource,
  { maxBytes, signal }: { readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<Attachment> {
  const { kind, param, name } = source;
  const url = source.url.startsWith("data:") ? source.url : await download(source, { maxBytes, signal });
  try {
    const limits = { maxImageBytes: maxBytes, maxFileBytes: maxBytes };
    const { attachment } = await readAttachment(url, { cwd: "/", roots: [], ...limits });
    if (kind === "image" && attachment.type !== "image") {
      throw new ServiceError("invalid_image_url", "The file is not a PNG, JPEG, GIF or WebP image.");
    }
    return name === undefined ? attachment : { ...attachment, name };
  } catch (cause) {
    if (!(cause instanceof ServiceError)) throw cause;
    const code = kind === "image" ? "invalid_image_url" : "invalid_content_part";
    throw new ServiceError(code, `${param}: ${cause.message}`, { param, cause });
  }
}

/**
 * Downloads an image as a data URL. Refuses private addresses, because the server reaches hosts that clients
 * cannot.
 */
async function download(
  { url, param }: AttachmentSource,
  { maxBytes, signal }: { readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<string> {
  const fail = (why: string, cause?: unknown): never => {
    const what = `${param} cannot be fetched: ${why} Send it as a data URL.`;
    throw new ServiceError("invalid_image_url", what, { param, cause });
  };
  try {
    const options = { timeoutMs: FETCH_TIMEOUT_MS, maxBytes, allowedPrivateHosts: [], signal };
    const { status, body, truncated } = await guardedFetch(url, options);
    if (status !== 200) return fail(`the server answered ${status}.`);
    if (truncated) return fail(`it has more than ${maxBytes} bytes.`);
    return `data:application/octet-stream;base64,${Buffer.from(body).toString("base64")}`;
  } catch (error) {
    if (error instanceof ServiceError || signal.aborted) throw error;
    return fail(error instanceof Error ? error.message : "it did not answer.", error);
  }
}

/** A part as the server accepts it: its type decides here, so that the message names what is supported. */
interface Part extends Readonly<Record<string, unknown>> {
  readonly type: string;
}

function readPart(part: Part, param: string): string | AttachmentSource {
  switch (part.type) {
    case "text":
    case "input_text":
    case "output_text":
      return requireText(part["text"], `${param}.text`);
    case "refusal":
      return requireText(part["refusal"], `${param}.refusal`);
    case "image_url":
    case "input_image":
      return imageSource(part, param);
    case "file":
    case "input_file":
      return fileSource(part, param);
    default: {
      const what = `${param} has the type ${JSON.stringify(part.type.slice(0, 64))}. Text, image and file parts are supported.`;
      throw new ServiceError("unsupported_content_type", what, { param: `${param}.type` });
    }
  }
}

function imageSource(part: Part, param: string): AttachmentSource {
  const given = part["image_url"];
  const url = isRecord(given) ? given["url"] : given;
  const at = `${param}.image_url${isRecord(given) ? ".url" : ""}`;
  if (typeof url === "string" && /^(?:data:|https?:\/\/)/i.test(url))
    return { kind: "image", url, param: at };
  const what = `${at} must be a data URL (\`data:image/png;base64,...\`) or an http address.`;
  throw new ServiceError("invalid_image_url", what, { param: at });
}

/** Reads a file part. The chat format nests the fields that the responses format has flat. */
function fileSource(part: Part, param: string): AttachmentSource {
  const isNested = isRecord(part["file"]);
  const file: Readonly<Record<string, unknown>> = isNested ? (part["file"] as object as never) : part;
  const at = `${param}${isNested ? ".file" : ""}.file_data`;
  const { file_data: data, filename } = file;
  if (typeof data !== "string" || data === "") {
    throw invalidPart(at, "must be a data URL; files by id or address are not supported");
  }
  const url = data.startsWith("data:") ? data : `data:application/octet-stream;base64,${data}`;
  const name = typeof filename === "string" ? { name: filename.slice(0, MAX_NAME_CHARACTERS) } : {};
  return { kind: "file", url, param: at, ...name };
}

const MAX_NAME_CHARACTERS = 256;

function requireText(text: unknown, param: string): string {
  if (typeof text === "string") return text;
  throw invalidPart(param, "must be text");
}

function invalidPart(param: string, what: string): ServiceError {
  return new ServiceError("invalid_content_part", `${param} ${what}.`, { param });
}
