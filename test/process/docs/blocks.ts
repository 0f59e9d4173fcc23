/** The code blocks of a Markdown page, and what the page says about them. Pure. */
import { dirname, join, normalize } from "node:path";

export interface Block {
  /** The line of the page where its code begins. */
  readonly line: number;
  /** Empty for a diagram. */
  readonly language: string;
  readonly code: string;
  /** Why it cannot run: from the comment `<!-- not run: ... -->` before it. */
  readonly notRun: string | undefined;
  /** The name under which later blocks read it: from the comment `<!-- file: ... -->`. */
  readonly file: string | undefined;
}

/** Languages of blocks; `text` is what the block before it prints. */
export const RUN = new Set(["sh", "js", "ts", "python"]);
const KNOWN = new Set([...RUN, "text", "yaml", "json", ""]);

/** Returns the blocks of a page in order. Throws where a block has a language that no test runs. */
export function blocksOf(text: string): readonly Block[] {
  const blocks: Block[] = [];
  let end = 0;
  for (const found of text.matchAll(/^```([^\n]*)\n([^]*?)^```$/gm)) {
    const [whole, language = "", code = ""] = found;
    const line = text.slice(0, found.index).split("\n").length + 1;
    if (!KNOWN.has(language)) throw new Error(`line ${line}: no test runs the language ${language}`);
    const between = text.slice(end, found.index);
    const [, notRun] = /<!-- not run: ([^\n]+?) -->\s*$/.exec(between) ?? [];
    const [, file] = /<!-- file: ([\w.-]+) -->\s*$/.exec(between) ?? [];
    blocks.push({ line, language, code, notRun, file });
    end = found.index + whole.length;
  }
  return blocks;
}

/** Returns a pattern for an output as the page shows it: `...` stands for anything, also for several lines or none. */
export function outputPattern(shown: string): RegExp {
  const [, text = "", isOpen] = /^([^]*?)(\n\.\.\.)?$/.exec(plain(shown)) ?? [];
  const parts = text.split("...").map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`^${parts.join("[^]*?")}${isOpen ? "(?:\\n[^]*)?" : ""}$`);
}

/** Replaces what differs between two runs: ids, times, durations, versions, the width of columns. */
export function plain(output: string): string {
  return (
    output
      .replaceAll(/\b([a-z]{2,8})_[0-9a-z]{26}\b/g, "$1_ID")
      .replaceAll(/\b\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_(\w+)-\d+\b/g, "TIME_$1")
      .replaceAll(/\b\d{8}_\d{6}_[0-9a-f]{12}\b/g, "SESSION")
      .replaceAll(/\b[0-9a-f]{12}\b/g, "HEX")
      .replaceAll(/\b(?:\d+ (?:s|min) ago|now)\b/g, "TIME")
      .replaceAll(/\b\d+(?:\.\d+)? (?:s|ms|min)\b/g, "N s")
      .replaceAll(/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?Z?)?/g, "TIME")
      .replaceAll(/\bagentd \d+\.\d+\.\d+\b/g, "agentd VERSION")
      .replaceAll(/[ \t\r]+$/gm, "")
      // The columns of a table follow its widest entry.
      .replaceAll(/(?<=\S) {2,}/g, "  ")
      .trim()
  );
}

/** Returns the anchors of a page's headings, as GitHub makes them. */
export function anchorsOf(text: string): ReadonlySet<string> {
  const prose = text.replaceAll(/^```[^]*?^```$/gm, "");
  return new Set(
    [...prose.matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

/** Returns the files and anchors of this repository to which a page links. */
export function linksOf(
  page: string,
  text: string,
): readonly { readonly file: string; readonly anchor: string }[] {
  const prose = text.replaceAll(/^```[^]*?^```$/gm, "").replaceAll(/`[^`\n]*`/g, "");
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = ""]) => {
    if (/^[a-z]+:/.test(target)) return [];
    const [path = "", anchor = ""] = target.split("#");
    return [{ file: path === "" ? page : normalize(join(dirname(page), path)), anchor }];
  });
}
