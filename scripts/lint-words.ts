/**
 * node scripts/lint-words.ts [FOLDER]: fails where sources, specs, test titles, documents or examples use a word of the project's
 * former private vocabulary, or where a text that users read does not follow the style of the reference.
 */
import { glob, readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import process from "node:process";
import { parseDocument, visit } from "yaml";

interface Finding {
  readonly file: string;
  readonly line: number;
  readonly text: string;
  readonly advice: string;
}

interface Banned {
  readonly word: RegExp;
  readonly advice: string;
  /** Files in which the word has the meaning of the field: a Matrix room, a folder that folds, a field of the differ. */
  readonly except?: RegExp;
}

const root = resolve(process.env["WORDS_ROOT"] ?? join(import.meta.dirname, ".."));

/** Whole words, also as parts of camelCase and snake_case names. */
const banned: readonly Banned[] = [
  ban("flaws?", "problem or issue"),
  ban("tell|tells|telling|told|teller", "notify, report, say or send", /job\/check\.ts/),
  ban("wish|wishes", "input or options"),
  ban("errands?", "request"),
  ban("verdicts?", "decision or result", /compatible-changes/),
  ban("judge|judges|judged|judgement", "evaluate, decide"),
  ban("salvage|salvaged", "rebuild or recover"),
  ban("lanes?", "ordering key or session queue"),
  ban("owe|owes|owed", "enqueue, pending"),
  ban("lend|lends|lent|loans?", "attach, client resources"),
  ban("desks?", "service"),
  ban(
    "rooms?",
    "deps, module",
    /matrix|specs\/delivery|platforms|deliver\/(?:message|target|text)|outbox\/outbox|deliver\/message\.test/,
  ),
  ban("fold|folds|folded", "reducer", /css|html|markdown|policy/),
  ban("narrators?", "projector"),
  ban("remedy|remedies", "hint"),
  ban("doubt|doubts|doubtful", "uncertain"),
  ban("vitals", "stats"),
  ban("manners", "quirks"),
  ban("whoever|nobody|somebody|anybody|nothing else than", "name who or what it is; someone, anyone"),
  ban("leave to|for leave|need leave|needs leave|given leave|without leave", "approval or permission"),
  ban("takeback|take back", "undo"),
  ban("goes on|went on|go on (?:without|with|until|while)", "continue"),
  ban("one (?:\\w+ )?a line", "one per line"),
  {
    // "There is no such file" is English; "a frame that is no request" is not.
    word: /(?<!\bthere )\b(?:is|are|was|were) no (?!longer|more|such|way|other|one\b|\w+er\b)[a-z]/i,
    advice: "is not a",
  },
];

/** Sentences of descriptions, help, prompts and errors. */
const style: readonly Banned[] = [
  {
    word: /^(?:There (?:is|are)|Of (?:the|a|an|all|its|their|what|those) )/,
    advice: "begin with the subject",
  },
  { word: /^(?:What|Who|Whoever|Whatever|That) [^?]*[^?]$/, advice: "begin with a noun or a verb" },
  { word: /\bthere (?:is|are) (?:none|one|no more)\b/i, advice: "name what is missing" },
  { word: /\b(?:no more|no longer than anybody|for ever)\b/i, advice: "no longer; forever" },
];

function ban(words: string, advice: string, except?: RegExp): Banned {
  const word = new RegExp(`(?<![a-z])(?:${words})(?![a-z])|(?<=[a-z])(?:${capitals(words)})(?![a-z])`);
  return { word, advice, ...(except ? { except } : {}) };
}

/** The words as they stand inside of a camelCase name, or at the start of a sentence or of a type's name. */
function capitals(words: string): string {
  return words
    .split("|")
    .map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`)
    .join("|");
}

const TITLE = /(?<![.\w])(?:t\.)?(?:test|it|describe|scenario|rpcScenario|webhookScenario)\(/;

async function main(): Promise<void> {
  const [folder = "."] = process.argv.slice(2);
  const findings = [
    ...(await inWords(["src/**/*.{ts,tsx}", "scripts/*.ts", "scripts/lib/*.ts"], () => true)),
    ...(await inWords(
      ["specs/**/*.yaml", "*.md", "docs/**/*.md", "examples/**/*", "test/README.md"],
      () => true,
    )),
    ...(await inWords(["test/**/*.test.ts"], (line) => TITLE.test(line))),
    ...(await inDescriptions()),
  ].filter(({ file }) => folder === "." || file.startsWith(folder));
  for (const { file, line, text, advice } of findings) {
    console.error(`${file}:${line}: ${text.trim().slice(0, 140)}\n    write: ${advice}`);
  }
  if (findings.length === 0) return console.log("The words are plain.");
  console.error(`${findings.length} places use private words or an unclear style.`);
  process.exitCode = 1;
}

async function inWords(patterns: readonly string[], counts: (line: string) => boolean): Promise<Finding[]> {
  const findings: Finding[] = [];
  for await (const path of glob([...patterns], { cwd: root })) {
    const file = relative(root, resolve(root, path));
    if (file === "scripts/lint-words.ts" || file === "test/scripts/words.test.ts") continue;
    const rules = banned.filter(({ except }) => !except?.test(file));
    const lines = (await readFile(resolve(root, file), "utf8")).split("\n");
    for (const [index, text] of lines.entries()) {
      if (!counts(text)) continue;
      const rule = rules.find(
        ({ word }) => word.test(text) || word.test(text.replace(/^[^A-Za-z]*[A-Z]/, lower)),
      );
      if (rule) findings.push({ file, line: index + 1, text, advice: rule.advice });
    }
  }
  return findings;
}

const lower = (text: string) => text.toLowerCase();

/** The descriptions of the specs, which become the reference, and those of the commands. */
async function inDescriptions(): Promise<Finding[]> {
  const findings: Finding[] = [];
  for await (const path of glob(["specs/**/*.yaml"], { cwd: root })) {
    const file = relative(root, resolve(root, path));
    const source = await readFile(resolve(root, file), "utf8");
    visit(parseDocument(source), {
      Pair(_, { key, value }) {
        const name = (key as { readonly value?: unknown } | null)?.value;
        const { value: text, range } = (value ?? {}) as {
          readonly value?: unknown;
          readonly range?: readonly number[];
        };
        if ((name !== "description" && name !== "summary") || typeof text !== "string") return;
        const line = source.slice(0, range?.[0] ?? 0).split("\n").length;
        findings.push(...inText(file, line, text, name === "description"));
      },
    });
  }
  for await (const path of glob(["src/cli/**/*.ts"], { cwd: root })) {
    const file = relative(root, resolve(root, path));
    for (const [index, text] of (await readFile(resolve(root, file), "utf8")).split("\n").entries()) {
      const described = /\bdescription:\s*"((?:[^"\\]|\\.)*)"/.exec(text)?.[1];
      if (described !== undefined) findings.push(...inText(file, index + 1, described, false));
    }
  }
  return findings;
}

function inText(file: string, line: number, text: string, mustEnd: boolean): Finding[] {
  const findings: Finding[] = [];
  for (const sentence of text.split(/(?<=[.!?])\s+/)) {
    const rule = style.find(({ word }) => word.test(sentence));
    if (rule) findings.push({ file, line, text: sentence, advice: rule.advice });
  }
  if (mustEnd && /\w \w/.test(text) && !/[.!?:)`"]\s*$/.test(text)) {
    findings.push({ file, line, text, advice: "end the sentence with a period" });
  }
  return findings;
}

await main();
