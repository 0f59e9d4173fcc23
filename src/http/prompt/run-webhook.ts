/** The completion webhook of a run, as a request gives it. */
import type { RunWebhook } from "../../agent/run/run.ts";
import type { Webhook } from "../../../generated/http/client/types.gen.ts";
import { ServiceError, type ErrorCode } from "../../base/errors.ts";
import { objectionToHost } from "../../base/net/fetch.ts";
import { isWebhookSecret } from "../../base/net/standard-webhook.ts";

export interface WebhookSettings {
  /** Whether the configuration has a default secret. */
  readonly hasSecret: boolean;
  /** Hosts (`name` or `name:port`) that may get webhooks although they are not public. */
  readonly allowedPrivateHosts: readonly string[];
  readonly maxAttempts: number;
}

const MAX_URL_CHARACTERS = 2_048;
const MIN_SECRET_CHARACTERS = 16;
const MAX_SECRET_CHARACTERS = 256;

/**
 * Returns the webhook of a request as it is stored with the run. `param` names the field. Throws as {@link checkWebhook}.
 */
export function recordWebhook(
  webhook: Webhook,
  settings: WebhookSettings,
  { param }: { readonly param: string },
): string {
  checkWebhook(webhook, settings, param);
  const { url, secret, events } = webhook;
  const record: RunWebhook = {
    url,
    ...(secret === undefined ? {} : { secret }),
    ...(events === undefined ? {} : { events }),
    maxAttempts: settings.maxAttempts,
  };
  return JSON.stringify(record);
}

/**
 * Throws ServiceError `invalid_request` for an address that is not allowed or a secret that cannot sign,
 * `missing_required_parameter` without any secret. Each send checks the resolved address again.
 */
export function checkWebhook(webhook: Webhook, settings: WebhookSettings, param: string): void {
  checkUrl(webhook.url, settings, `${param}.url`);
  checkSecret(webhook.secret, settings, `${param}.secret`);
}

function checkUrl(text: string, settings: WebhookSettings, param: string): void {
  if (text.length > MAX_URL_CHARACTERS) {
    throw refused(`The address is longer than ${MAX_URL_CHARACTERS} characters.`, param);
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== "https:" && url.protocol !== "http:")) {
    throw refused("The address must be a whole https or http URL.", param);
  }
  if (url.username !== "" || url.password !== "") {
    throw refused(
      "Leave the user name and password out of the address; the signature proves who sends.",
      param,
    );
  }
  const objection = objectionToHost(url, settings.allowedPrivateHosts);
  if (objection === undefined) return;
  const hint = "The server's operator can allow it in api_server.webhook_allowed_hosts.";
  throw refused(`${url.host} cannot receive webhooks: it is ${objection}. ${hint}`, param);
}

function checkSecret(secret: string | undefined, { hasSecret }: WebhookSettings, param: string): void {
  if (secret === undefined) {
    if (hasSecret) return;
    const what = "Give a secret to sign with: this server has none of its own (api_server.webhook_secret).";
    throw refused(what, param, "missing_required_parameter");
  }
  if (secret.length < MIN_SECRET_CHARACTERS || secret.length > MAX_SECRET_CHARACTERS) {
    const range = `${MIN_SECRET_CHARACTERS} to ${MAX_SECRET_CHARACTERS}`;
    throw refused(`The secret must have ${range} characters.`, param);
  }
  if (!isWebhookSecret(secret)) throw refused("Behind whsec_ the secret must be base64.", param);
}

function refused(message: string, param: string, code: ErrorCode = "invalid_request"): ServiceError {
  return new ServiceError(code, message, { param });
}
