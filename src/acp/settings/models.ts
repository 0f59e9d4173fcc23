/** The models of a session as a client chooses them. Pure. */
import type { SessionConfigSelectGroup } from "@agentclientprotocol/sdk/unstable";
import { formatModel, isReady, type ModelCatalog } from "../../agent/model.ts";
import { nearest } from "../../base/nearest.ts";
import { invalidParams } from "../wire/error.ts";

/** What clients that know no options read of the models. */
export interface LegacyModels {
  readonly currentModelId: string;
  readonly availableModels: readonly { readonly modelId: string; readonly name: string }[];
}

/** Pickers of editors show them all at once; a model beyond can still be named. */
const MAX_MODELS = 200;
/** An error looks for a near one among so many. */
const MAX_COMPARED = 500;
/** So many names an error lists. */
const MAX_NAMED = 20;

/** Models that can be asked, by provider; `current` is always among them, whether there is such a model or not. */
export function modelGroups(models: ModelCatalog, current: string): SessionConfigSelectGroup[] {
  const known = usable(models).flatMap((provider) =>
    provider.models.map((model) => ({ provider: provider.name, model })),
  );
  const shown = known.slice(0, MAX_MODELS);
  const own = { provider: current.split(":")[0] ?? current, model: current };
  if (!shown.some(({ model }) => model === current))
    shown.splice(Math.min(shown.length, MAX_MODELS - 1), 1, own);
  return [...Map.groupBy(shown, ({ provider }) => provider)].map(([provider, of]) => ({
    group: provider,
    name: provider,
    options: of.map(({ model }) => ({ value: model, name: model.slice(provider.length + 1) || model })),
  }));
}

export function legacyModels(models: ModelCatalog, current: string): LegacyModels {
  const availableModels = modelGroups(models, current).flatMap(({ options }) =>
    options.map(({ value }) => ({ modelId: value, name: value })),
  );
  return { currentModelId: current, availableModels };
}

/**
 * The full name of a model that may be chosen. RequestError -32602 that names near ones when no provider has it, or its
 * provider cannot be asked. `param` is how the request calls it.
 */
export function readModel(
  models: ModelCatalog,
  wanted: unknown,
  { current, param }: { readonly current: string; readonly param: string },
): string {
  if (typeof wanted !== "string") throw invalidParams(param, `${param} must be the name of a model.`);
  if (wanted === current) return current;
  const ref = models.resolve(wanted);
  const provider = usable(models).find(({ name }) => name === ref?.provider);
  const name = ref && formatModel(ref);
  // A provider that nobody said the models of may have any.
  if (name !== undefined && provider && (provider.models.length === 0 || provider.models.includes(name)))
    return name;
  throw invalidParams(
    param,
    `There is no model ${JSON.stringify(wanted.slice(0, 256))}${hint(models, wanted)}`,
  );
}

function hint(models: ModelCatalog, wanted: string): string {
  const known = usable(models).flatMap((provider) => provider.models);
  const near = nearest(wanted, known.slice(0, MAX_COMPARED));
  if (near !== undefined) return `. Did you mean ${JSON.stringify(near)}?`;
  const more = known.length > MAX_NAMED ? ", …" : "";
  return `. There are: ${known.slice(0, MAX_NAMED).join(", ")}${more}.`;
}

const usable = (models: ModelCatalog) => models.list().filter(isReady);
