import type { ModelRef } from "../engine.ts";
import type { BusyMode } from "../deps.ts";
import type { Tx } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import type { RunInput, RunKind } from "./run.ts";
import type { SessionAddress, SessionSeed } from "../session/session.ts";

/** What a surface or trigger asks of the agent. */
export interface Prompt {
  readonly address: SessionAddress;
  readonly seed: SessionSeed;
  readonly kind: RunKind;
  /**
   * What the run is asked. `opening` is the conversation before the prompt, for a session that does not exist yet;
   * a session that exists has its own.
   */
  readonly input: RunInput & { readonly opening?: RunInput["prompt"] };
  /** Undefined: the session's own model, else the default. */
  readonly model?: ModelRef;
  /** Of the new run, where it was told of before; else it gets one. */
  readonly runId?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly whenBusy?: BusyMode;
  /** Who is told of the run, as run-webhook.ts records it. */
  readonly webhook?: string;
  /** Where its answer goes, as run-delivery.ts records it. */
  readonly delivery?: string;
  /**
   * Writes what belongs to the run in the transaction that records it. When it throws there is no run. As any store
   * work it may be called twice. The run is `running` when it starts at once in a session that is new.
   */
  readonly alsoRecord?: (tx: Tx, run: RunRow) => Promise<void>;
  /**
   * Writes what belongs to the text where it is steered into the run `runId` instead, in the transaction that gives it to
   * that run. Without it a prompt with {@link alsoRecord} is not steered.
   */
  readonly alsoSteer?: (tx: Tx, runId: string) => Promise<void>;
  /**
   * Refuses the run by throwing, in the same transaction, behind {@link alsoRecord}. Asked of a run that starts, or that
   * waits only for room and then starts by itself. Not of one that is queued behind its session's: when it starts, that
   * one has ended, so no more are at work than before; and not of steering.
   */
  readonly admit?: (tx: Tx) => Promise<void>;
  /** Called with the id of a new run before anything of it is committed: follow it from its first event. */
  readonly beforeStart?: (runId: string) => void;
}

export interface Submitted {
  readonly runId: string;
  readonly sessionId: string;
  readonly sessionKey: string | null;
  /** Effective `provider:model`. */
  readonly model: string;
  /** steered: the text went into the run that is at work, `runId`. */
  readonly status: "running" | "queued" | "steered";
  /** Milliseconds since the epoch; of a steered text, when it was taken. */
  readonly createdAtMs: number;
  /** Of a queued run: 1 is the next. */
  readonly queuePosition?: number;
}

/** What of a prompt a turn at work can take; undefined when it is more than text, or recorded with a run of its own. */
export function steerableText({ input: { prompt }, alsoRecord, alsoSteer }: Prompt): string | undefined {
  if (alsoRecord && !alsoSteer) return undefined;
  if (prompt.some((message) => message.role === "user" && message.attachments?.length)) return undefined;
  const texts = prompt.map((message) => (message.role === "user" ? message.text : ""));
  return texts.filter((part) => part !== "").join("\n\n") || undefined;
}
