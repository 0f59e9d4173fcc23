import type { ChatState, ChatStore, StatusFacts } from "./state.ts";

const NO_STATUS: StatusFacts = {
  model: "",
  provider: "",
  totalTokens: 0,
  isCostEstimated: false,
  isYolo: false,
};

/** Before anything is known. */
export const INITIAL_STATE: ChatState = {
  connection: { kind: "connecting", text: "Connecting" },
  generation: 0,
  settled: [],
  dropped: 0,
  live: [],
  queue: [],
  questions: [],
  notifications: [],
  status: NO_STATUS,
  composer: { completions: [], completionsFor: "", history: [] },
  isLeaveArmed: false,
  serial: 0,
};

/** A store that can be written: what the controller holds. */
export interface WritableStore extends ChatStore {
  readonly update: (change: (state: ChatState) => ChatState) => void;
}

/** Listeners are told of a change after it, once each; they must not throw. */
export function createStore(initial: ChatState = INITIAL_STATE): WritableStore {
  let state = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => state,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    update: (change) => {
      const next = change(state);
      if (next === state) return;
      state = next;
      for (const listener of listeners) listener();
    },
  };
}
