import type { BusyTargets } from "../../store/outbox/outbox.ts";
import { parseTarget, type Targets } from "../target.ts";

interface SlotMessage {
  /** Whole address. */
  readonly target: string;
  readonly ordering_key: string | null;
}

interface SlotLimits {
  /** Most concurrent attempts. */
  readonly total: number;
  /** Of these, to one address, of messages without an ordering key. */
  readonly perAddress: number;
}

const PER_PLATFORM = 8;

/**
 * Attempts under way, counted by platform, and by address those without an ordering key; each with its limit: a target
 * that hangs holds its own places only.
 */
export class Slots {
  readonly #limits: SlotLimits;
  readonly #targets: Targets;
  readonly #taken = new Counts();

  constructor(targets: Targets, limits: SlotLimits) {
    this.#targets = targets;
    this.#limits = limits;
  }

  get isFull(): boolean {
    return this.#taken.total >= this.#limits.total;
  }

  /** Addresses and platforms that accept no further attempt for now. */
  get busy(): BusyTargets {
    const { addresses, platforms } = this.#taken;
    const full = [...addresses].filter(([, count]) => count >= this.#limits.perAddress);
    const fullPlatforms = [...platforms].filter(([name, count]) => count >= this.#platformLimit(name));
    const waiting = [...this.#targets.values()].filter((target) => target.isReady?.() === false);
    const names = new Set([...fullPlatforms.map(([name]) => name), ...waiting.map(({ name }) => name)]);
    return { targets: full.map(([target]) => target), platforms: [...names] };
  }

  /** Returns the messages that fit the limits, in order. */
  choose<M extends SlotMessage>(messages: readonly M[]): readonly M[] {
    const taken = this.#taken.copy();
    return messages.filter((message) => {
      const { target } = message;
      const { platform } = parseTarget(target);
      const fits =
        taken.total < this.#limits.total &&
        (taken.platforms.get(platform) ?? 0) < this.#platformLimit(platform) &&
        (message.ordering_key !== null || (taken.addresses.get(target) ?? 0) < this.#limits.perAddress);
      if (fits) taken.add(message, 1);
      return fits;
    });
  }

  /** Takes a slot. The returned function releases it. */
  take(message: SlotMessage): () => void {
    this.#taken.add(message, 1);
    return () => this.#taken.add(message, -1);
  }

  #platformLimit(platform: string): number {
    return this.#targets.get(platform)?.concurrency ?? PER_PLATFORM;
  }
}

class Counts {
  total = 0;
  readonly addresses = new Map<string, number>();
  readonly platforms = new Map<string, number>();

  add({ target, ordering_key }: SlotMessage, by: 1 | -1): void {
    this.total += by;
    if (ordering_key === null) step(this.addresses, target, by);
    step(this.platforms, parseTarget(target).platform, by);
  }

  copy(): Counts {
    const copy = new Counts();
    copy.total = this.total;
    for (const [key, count] of this.addresses) copy.addresses.set(key, count);
    for (const [key, count] of this.platforms) copy.platforms.set(key, count);
    return copy;
  }
}

function step(counts: Map<string, number>, key: string, by: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
