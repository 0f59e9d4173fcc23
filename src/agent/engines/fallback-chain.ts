import type { EngineTurn, ModelRef } from "../engine.ts";
import { loadModel, type ProviderConfig } from "./providers.ts";

/** A model that can be asked. */
export interface AnsweringModel {
  readonly ref: ModelRef;
  readonly provider: ProviderConfig;
  readonly model: Awaited<ReturnType<typeof loadModel>>;
}

/** The models of a turn: the chosen one, and those that take over in their order. None comes twice. */
export class FallbackChain {
  readonly #providers: readonly ProviderConfig[];
  readonly #left: ModelRef[];

  constructor({ model, fallbacks = [] }: EngineTurn, providers: readonly ProviderConfig[]) {
    const isSame = (a: ModelRef, b: ModelRef) => a.provider === b.provider && a.id === b.id;
    const refs = [model, ...fallbacks];
    this.#left = refs.filter((ref, index) => refs.findIndex((other) => isSame(ref, other)) === index);
    this.#providers = providers;
  }

  /** The next one whose provider is configured. */
  async next(): Promise<AnsweringModel | undefined> {
    for (let ref = this.#left.shift(); ref; ref = this.#left.shift()) {
      const { provider: name, id } = ref;
      const provider = this.#providers.find((candidate) => candidate.name === name);
      if (provider) return { ref, provider, model: await loadModel(provider, id) };
    }
    return undefined;
  }
}
