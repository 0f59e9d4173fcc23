import type { FileAccess, Tool } from "../tool/tool.ts";

/** What the program that has a session open lends to it while it has. */
export interface ClientResources {
  /** Tools beside the agent's own, as they are now. */
  readonly tools?: () => readonly Tool[];
  /** Resolves when tools that are still coming are there, or are not waited for any longer. */
  readonly settled?: () => Promise<void>;
  /** The files as the program has them. */
  readonly files?: FileAccess;
  /** Absolute folders where the session works beside its own. */
  readonly roots?: readonly string[];
  /** What people should know since they were last asked for. */
  readonly notices?: () => readonly string[];
  /** Ends what the loan holds, once it was taken back. */
  readonly close?: () => Promise<void>;
}

/** All that is lent to one session; of files, what was lent last. */
export interface SessionResources {
  /** `own`, and what is lent; a lent tool whose name is taken gets another. */
  tools(own: readonly Tool[]): readonly Tool[];
  settled(): Promise<void>;
  readonly files: FileAccess | undefined;
  readonly roots: readonly string[];
  notices(): readonly string[];
}

const MAX_NAME_CHARACTERS = 64;

/**
 * What programs lend to the sessions they have open. Known to this process only: a run that goes on in another does
 * without. Sub-agents get what the session at the top of their family gets.
 */
export class AttachedClients {
  readonly #loans = new Map<string, Set<ClientResources>>();
  readonly #closing = new Set<Promise<void>>();

  /** From now on turns of the session get the loan; the result takes it back, and resolves when it is closed. */
  attach(sessionId: string, loan: ClientResources): () => Promise<void> {
    const loans = this.#loans.get(sessionId) ?? new Set();
    this.#loans.set(sessionId, loans.add(loan));
    return () => this.#truncateAt(sessionId, loan);
  }

  of(sessionId: string): SessionResources {
    const loans = [...(this.#loans.get(sessionId) ?? [])];
    return {
      tools: (own) => joined(own, loans),
      settled: async () => void (await Promise.all(loans.map((loan) => loan.settled?.()))),
      files: loans.findLast(({ files }) => files !== undefined)?.files,
      roots: [...new Set(loans.flatMap(({ roots = [] }) => roots))],
      notices: () => loans.flatMap((loan) => loan.notices?.() ?? []),
    };
  }

  /** Takes everything back; resolves when all of it is closed. */
  async close(): Promise<void> {
    for (const [sessionId, loans] of this.#loans) {
      for (const loan of loans) void this.#truncateAt(sessionId, loan);
    }
    await Promise.all(this.#closing);
  }

  async #truncateAt(sessionId: string, loan: ClientResources): Promise<void> {
    const loans = this.#loans.get(sessionId);
    if (!loans?.delete(loan)) return;
    if (loans.size === 0) this.#loans.delete(sessionId);
    const closing = (loan.close?.() ?? Promise.resolve()).catch(() => {});
    this.#closing.add(closing);
    await closing.finally(() => this.#closing.delete(closing));
  }
}

function joined(own: readonly Tool[], loans: readonly ClientResources[]): readonly Tool[] {
  const lent = loans.flatMap((loan) => loan.tools?.() ?? []);
  if (lent.length === 0) return own;
  const taken = new Set(own.map(({ name }) => name));
  return [...own, ...lent.map((tool) => distinct(tool, taken))];
}

function distinct(tool: Tool, taken: Set<string>): Tool {
  let name = tool.name;
  for (let count = 2; taken.has(name); count += 1) {
    const ending = `_${count}`;
    name = `${tool.name.slice(0, MAX_NAME_CHARACTERS - ending.length)}${ending}`;
  }
  taken.add(name);
  return name === tool.name ? tool : { ...tool, name };
}
