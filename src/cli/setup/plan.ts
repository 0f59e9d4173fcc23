/** What a setup writes, worked out before anything is written. Pure. */
import { conventionalVariables, type ProviderType } from "../../config/providers.ts";
import { UsageError } from "../kit/arguments.ts";

export interface SetupAnswers {
  /** A kind of provider, such as `openai`; for openai_compatible also the name it gets. */
  readonly provider: ProviderType;
  readonly name?: string;
  readonly baseUrl?: string;
  /** Undefined keeps the key there is. */
  readonly apiKey?: string;
  readonly model?: string;
  readonly approvals?: "ask" | "always_ask" | "yolo";
}

export interface SetupPlan {
  /** Variable of `.env` and its value. */
  readonly secret: { readonly name: string; readonly value: string } | undefined;
  /** Keys of the configuration with their values, as they would be typed. */
  readonly edits: readonly (readonly [key: string, value: string])[];
}

export const PROVIDER_TYPES = ["openai", "anthropic", "google", "openrouter", "openai_compatible"] as const;
export const DEFAULT_NAME = "local";

const NAME = /^[a-z][a-z0-9_-]{0,63}$/;

/** Throws UsageError for answers that cannot be. */
export function planSetup(answers: SetupAnswers): SetupPlan {
  const { provider, baseUrl, apiKey, model, approvals } = answers;
  const isCompatible = provider === "openai_compatible";
  const name = answers.name ?? (isCompatible ? DEFAULT_NAME : provider);
  if (!NAME.test(name)) throw new UsageError("--name must be of a-z, 0-9, _ and -, beginning with a letter.");
  if (isCompatible && baseUrl === undefined)
    throw new UsageError("--base-url is required for openai_compatible.");
  if (baseUrl !== undefined && !/^https?:\/\//.test(baseUrl)) {
    throw new UsageError("--base-url must begin with http:// or https://.");
  }
  const variable = conventionalVariables[provider][0] ?? `${name.toUpperCase().replaceAll("-", "_")}_API_KEY`;
  // A provider under its own name finds its usual variable by itself; all others must be told.
  const reference = isCompatible && apiKey !== undefined ? { api_key: `env:${variable}` } : {};
  const section = { type: provider, ...(baseUrl === undefined ? {} : { base_url: baseUrl }), ...reference };
  return {
    secret: apiKey === undefined ? undefined : { name: variable, value: apiKey },
    edits: [
      [`model.providers.${name}`, JSON.stringify(section)],
      ...(model === undefined ? [] : [["model.default", qualified(model, name)] as const]),
      ...(approvals === undefined ? [] : [["approvals.mode", approvals] as const]),
    ],
  };
}

/** A model of this provider, whatever else is configured. */
function qualified(model: string, provider: string): string {
  return model.startsWith(`${provider}:`) ? model : `${provider}:${model}`;
}
