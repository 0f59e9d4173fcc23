/** What `agentd setup` finds on this machine, and which model it proposes. */
import type { Config } from "../../../generated/config/types.gen.ts";
import { detectLocalServers, type Listing, type LocalServer } from "../../app/model-servers.ts";
import type { Environment } from "../../config/home.ts";
import { conventionalVariables, type ProviderType } from "../../config/providers.ts";

export const PROVIDER_TYPES = ["openai", "anthropic", "google", "openrouter", "openai_compatible"] as const;

/** A choice for people. */
export type Offer =
  | { readonly kind: "server"; readonly server: LocalServer }
  | { readonly kind: "provider"; readonly type: ProviderType; readonly variable: string | undefined };

interface Offers {
  /** What is usable without further input comes first. */
  readonly offers: readonly Offer[];
  /** `host:port` of open ports that did not answer in time. */
  readonly unanswered: readonly string[];
}

/** Looks for keys in the environment and `.env`, and for model servers on this machine. */
export async function findOffers(config: Config, env: Environment): Promise<Offers> {
  const { servers, unanswered } = await detectLocalServers(config.model.local_servers);
  const providers = PROVIDER_TYPES.map((type) => {
    const variable = conventionalVariables[type].find((name) => env[name]);
    return { kind: "provider" as const, type, variable };
  });
  const withKey = providers.filter(({ variable }) => variable !== undefined);
  const others = providers.filter(({ variable }) => variable === undefined);
  const found = servers.map((server) => ({ kind: "server" as const, server }));
  return { offers: [...withKey, ...found, ...others], unanswered };
}

/** Models for something else than conversations. */
const NOT_CHAT =
  /embed|whisper|tts|audio|speech|dall-e|image|moderation|realtime|transcribe|rerank|search|sora|veo|imagen|aqa|babbage|davinci|instruct$/i;

/** The best models of each maker for an agent, by name; the highest version of the first pattern is proposed. */
const PREFERRED: Readonly<Record<ProviderType, readonly RegExp[]>> = {
  openai: [/^gpt-\d+(?:\.\d+)?$/, /^gpt-4o$/],
  anthropic: [/^claude-sonnet-/, /^claude-/],
  google: [/^gemini-[\d.]+-pro$/, /^gemini-[\d.]+-flash$/],
  openrouter: [/^anthropic\/claude-sonnet-[\d.]+$/, /^openai\/gpt-[\d.]+$/],
  openai_compatible: [],
};

const byVersion = new Intl.Collator("en", { numeric: true });

/** Returns the model to propose; undefined when the list has none for conversations. */
export function preferredModel(type: ProviderType, models: readonly string[]): string | undefined {
  const usable = models.filter((id) => !NOT_CHAT.test(id));
  for (const pattern of PREFERRED[type]) {
    const matching = usable.filter((id) => pattern.test(id)).toSorted(byVersion.compare);
    if (matching.length > 0) return matching.at(-1);
  }
  return usable[0] ?? models[0];
}

/** Returns why a provider gave no list of models, as a sentence. */
export function describeListing(
  listing: Exclude<Listing, { readonly status: "listed" }>,
  who: string,
): string {
  switch (listing.status) {
    case "refused":
      return `${who} does not accept the API key (${listing.httpStatus}).`;
    case "slow":
      return `${who} did not answer in time.`;
    case "unreachable":
      return `${who} could not be reached.`;
    case "other":
      return `${who} does not list its models.`;
  }
}
