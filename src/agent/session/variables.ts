import { LruMap } from "../../base/lru.ts";
import type { SessionVariables } from "../tool/tool.ts";

/** Where variables come from. */
export interface VariableSource {
  get(name: string): string | undefined;
}

/** Sessions whose shared variables are remembered; the longest unused go first. */
const MAX_SESSIONS = 1000;

/** Which variables the commands of a session see, in this process: none, until a skill or tool shares some. */
export class VariableShares {
  readonly #source: VariableSource;
  readonly #names = new LruMap<string, Set<string>>(MAX_SESSIONS);

  constructor(source: VariableSource) {
    this.#source = source;
  }

  of(sessionId: string): SessionVariables {
    const source = this.#source;
    return {
      has: (name) => source.get(name) !== undefined,
      share: (name) => void this.#keep(sessionId).add(name),
      shared: () =>
        Object.fromEntries(
          [...(this.#names.get(sessionId) ?? [])].flatMap((name) => {
            const value = source.get(name);
            return value === undefined ? [] : [[name, value]];
          }),
        ),
    };
  }

  #keep(sessionId: string): Set<string> {
    const names = this.#names.get(sessionId) ?? new Set<string>();
    this.#names.set(sessionId, names);
    return names;
  }
}
