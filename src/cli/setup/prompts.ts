/** Asks a person at the terminal what a setup needs. */
import { conventionalVariables } from "../../config/providers.ts";
import { DEFAULT_NAME, PROVIDER_TYPES, type SetupAnswers } from "./plan.ts";

export interface SetupDefaults {
  readonly hasKey: (provider: SetupAnswers["provider"]) => boolean;
  readonly model: string | undefined;
  readonly approvals: NonNullable<SetupAnswers["approvals"]>;
}

const LABELS: Readonly<Record<SetupAnswers["provider"], string>> = {
  openai: "OpenAI",
  anthropic: "Anthropic",
  google: "Google",
  openrouter: "OpenRouter",
  openai_compatible: "Another server with OpenAI's protocol (Ollama, vLLM, LM Studio ...)",
};

/** Undefined when the person broke off. Nothing is written here. */
export async function askSetup(defaults: SetupDefaults): Promise<SetupAnswers | undefined> {
  const ask = await import("@clack/prompts");
  ask.intro("agentd setup");
  const options = PROVIDER_TYPES.map((value) => ({ value, label: LABELS[value] }));
  const provider = await ask.select({ message: "Where do models come from?", options });
  if (ask.isCancel(provider)) return undefined;
  const isCompatible = provider === "openai_compatible";
  const name = isCompatible
    ? await ask.text({ message: "A short name for it", initialValue: DEFAULT_NAME })
    : undefined;
  if (ask.isCancel(name)) return undefined;
  const baseUrl = isCompatible
    ? await ask.text({ message: "Its address", placeholder: "http://127.0.0.1:11434/v1" })
    : undefined;
  if (ask.isCancel(baseUrl)) return undefined;
  const variable = conventionalVariables[provider][0] ?? "a key";
  const keep = isCompatible || defaults.hasKey(provider) ? " (empty: none, or keep the one there is)" : "";
  const apiKey = await ask.password({ message: `${variable}${keep}` });
  if (ask.isCancel(apiKey)) return undefined;
  const model = await ask.text({
    message: "Which model?",
    ...(defaults.model === undefined ? {} : { initialValue: defaults.model }),
  });
  if (ask.isCancel(model)) return undefined;
  const approvals = await ask.select({
    message: "What may the agent do without asking?",
    initialValue: defaults.approvals,
    options: [
      { value: "ask" as const, label: "Ordinary work; it asks before what is risky" },
      { value: "always_ask" as const, label: "Only look; it asks before every change" },
      { value: "yolo" as const, label: "Everything but what is never allowed" },
    ],
  });
  if (ask.isCancel(approvals)) return undefined;
  return {
    provider,
    approvals,
    ...(name ? { name } : {}),
    ...(baseUrl ? { baseUrl } : {}),
    ...(apiKey ? { apiKey } : {}),
    ...(model ? { model } : {}),
  };
}
