/** What the palette offers, and how it is searched. Pure but for what was used last. */

export interface Command {
  /** Names it among those that were used last. */
  readonly id: string;
  readonly label: string;
  /** A word about its kind, such as "Page". */
  readonly group: string;
  readonly run: () => void;
}

/**
 * Returns how well a text fits what was typed: its letters in order, better at the start of words and side by side. Undefined
 * when it does not fit.
 */
export function fuzzyScore(text: string, typed: string): number | undefined {
  const all = text.toLowerCase();
  let score = 0;
  let at = -1;
  for (const letter of typed.toLowerCase().replace(/\s+/g, "")) {
    const next = all.indexOf(letter, at + 1);
    if (next < 0) return undefined;
    const isWordStart = next === 0 || /[^a-z0-9]/.test(all[next - 1] ?? "");
    score += isWordStart ? 8 : next === at + 1 ? 5 : 1;
    at = next;
  }
  // Of two texts that fit equally well, the shorter one is probably meant.
  return score - text.length / 100;
}

const MAX_SHOWN = 40;

/** Returns the commands that fit, best first; of equals and without a text, those that were used last. */
export function findCommands(
  commands: readonly Command[],
  typed: string,
  lastUsed: readonly string[],
): readonly Command[] {
  const age = (id: string) => {
    const index = lastUsed.indexOf(id);
    return index < 0 ? lastUsed.length : index;
  };
  return commands
    .flatMap((command) => {
      const score = typed.trim() === "" ? 0 : fuzzyScore(command.label, typed);
      return score === undefined ? [] : [{ command, score }];
    })
    .toSorted((a, b) => b.score - a.score || age(a.command.id) - age(b.command.id))
    .slice(0, MAX_SHOWN)
    .map(({ command }) => command);
}

const USED = "agentd.usedCommands";
const MAX_USED = 20;

export function readUsed(): readonly string[] {
  return (localStorage.getItem(USED) ?? "").split("\n").filter((id) => id !== "");
}

export function keepUsed(id: string): void {
  const used = [id, ...readUsed().filter((other) => other !== id)].slice(0, MAX_USED);
  localStorage.setItem(USED, used.join("\n"));
}
