import type { ModelRef, ToolChoice, ToolSpec } from "../../agent/engine.ts";
import type { Webhook } from "../../../generated/http/client/types.gen.ts";
import type { RunInput } from "../../agent/run/run.ts";
import { recordWebhook } from "../../agent/notify/run-webhook.ts";
import { ServiceError } from "../../base/errors.ts";
import type { HttpDeps } from "../deps.ts";
import { checkSessionName, type SessionAddress } from "../../agent/session/session.ts";
import type { Identity } from "../edge/access.ts";

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
    const found = models.resolve(header);
    if (!found) throw modelNotFound(header, "X-Agent-Model");
    return found;
  }
  if (body === undefined || body === settings.modelName) return undefined;
  const found = models.resolve(body);
  if (!found && isStrict) throw modelNotFound(body, "model");
  return found;
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

/** Converts the client's tools. With the choice `none`, no tool is passed on. ServiceError `invalid_request`. */
export function clientTools(
  tools: readonly DeclaredTool[],
  choice: "none" | "auto" | "required" | { readonly name: string } | undefined,
): { readonly clientTools?: readonly ToolSpec[]; readonly toolChoice?: ToolChoice } {
  const specs = tools.map((tool, index) => toSpec(tool, index, tools));
  if (typeof choice === "object" && !specs.some(({ name }) => name === choice.name)) {
    const what = `tool_choice names ${JSON.stringify(choice.name)}, which tools does not list.`;
    throw new ServiceError("invalid_request", what, { param: "tool_choice" });
  }
  if (choice === "required" && specs.length === 0) {
    const what = "tool_choice is required, but tools is empty.";
    throw new ServiceError("invalid_request", what, { param: "tool_choice" });
  }
  if (specs.length === 0 || choice === "none") return {};
  if (choice === undefined || choice === "auto") return { clientTools: specs };
  return { clientTools: specs, toolChoice: choice === "required" ? choice : { tool: choice.name } };
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
  if (id === undefined && key === undefined) return { owner: identity.name };
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
    owner: identity.name,
    ...(id === undefined ? {} : { name: id }),
    ...(key === undefined ? {} : { key }),
  };
}
