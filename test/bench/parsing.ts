import { RE2JS } from "re2js";
import { parseCommand } from "../../src/agent/agent.ts";
import { plainText, readPage } from "../../src/agent/tools/web/page-reader.ts";
import { parseExactJson } from "../../src/base/data.ts";
import { jsonExcerpt, renderTemplate } from "../../src/webhook/receive/template.ts";
import { patternOf } from "../../src/webhook/receive/filter.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const ROUNDS = 5;
const PAGE_TIMEOUT_MS = 700;
/** More than a pattern of many steps looks through. */
const LONG_CHARACTERS = 20_000;
const PLAIN_CHARACTERS = 5_000_000;

/** Texts that try to keep a parser busy, each by a harmless text of about the same length. */
export async function run(): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const part of [exactJson, patterns, templates, commands, plainTexts, pages]) {
    console.error(`  ${part.name} ...`);
    rows.push(...(await part()));
  }
  return rows;
}

/** One way to do it, and its counterpart. `work` throws when the result is not the one that is wanted. */
interface Pair {
  readonly name: string;
  readonly unit?: "ms" | "us";
  readonly work: () => void;
  readonly bare: () => void;
  /** Times that each is done in a sample, so that short ones can be measured. */
  readonly times?: number;
}

/** Samples alternate; the medians count. The first of each warms up. */
function compare({ name, unit = "ms", work, bare, times = 1 }: Pair): BenchRow {
  const [ours, control]: [number[], number[]] = [[], []];
  for (let round = 0; round <= ROUNDS; round++) {
    const samples = [msEach(work, times), msEach(bare, times)] as const;
    if (round === 0) continue;
    ours.push(samples[0]);
    control.push(samples[1]);
  }
  const scale = unit === "us" ? 1_000 : 1;
  return { ...toRow(name, median(ours) * scale, median(control) * scale), unit };
}

function toRow(name: string, value: number, control: number): BenchRow {
  return { name, value, unit: "ms", control, ratio: value / control };
}

function msEach(work: () => void, times: number): number {
  const startMs = performance.now();
  for (let n = 0; n < times; n++) work();
  return (performance.now() - startMs) / times;
}

function expect(isRight: boolean, what: string): void {
  if (!isRight) throw new Error(`${what} has the wrong result`);
}

function exactJson(): readonly BenchRow[] {
  const count = 20_000;
  const text = JSON.stringify({
    rows: Array.from({ length: count }, (_, at) => ({ at, sha: "a1".repeat(20) })),
  });
  const check = (value: unknown) =>
    expect((value as { readonly rows: readonly unknown[] }).rows.length === count, "the JSON");
  return [
    compare({
      name: "exact JSON of 1 MB without long numbers, by JSON.parse",
      work: () => check(parseExactJson(text)),
      bare: () => check(JSON.parse(text)),
    }),
  ];
}

/** Patterns that are slow where every way to match is tried. Control: the same library, which looks through any text. */
function patterns(): readonly BenchRow[] {
  const text = randomText(LONG_CHARACTERS);
  return [".*a.{900}$", "a.{900}$", ".*a.{100}$", "(a+)+$"].flatMap((source) => {
    const bare = RE2JS.compile(source);
    return [2_000, LONG_CHARACTERS].map((length) => {
      const piece = text.slice(0, length);
      // A text this long is looked through only for a pattern of few steps.
      const isRefused = length > 2_000 && source.includes("00}");
      const wanted = isRefused ? undefined : bare.test(piece);
      return compare({
        name: `filter pattern ${source}, ${length} characters${isRefused ? " (refused)" : ""}, by the library`,
        unit: "us",
        work: () => expect(patternOf(source)?.(piece) === wanted, source),
        bare: () => expect(typeof bare.test(piece) === "boolean", source),
        times: length > 2_000 ? 1 : 50,
      });
    });
  });
}

/** Letters a and b, the same each time. */
function randomText(length: number): string {
  let state = 1;
  return Array.from({ length }, () => {
    state = (state * 1_103_515_245 + 12_345) & 0x7fff_ffff;
    return state & 0x1_0000 ? "a" : "b";
  }).join("");
}

function templates(): readonly BenchRow[] {
  const rowsOf = (length: number) => ({
    rows: Array.from({ length }, (_, index) => ({ index, text: "z".repeat(20) })),
  });
  const [large, small] = [rowsOf(300_000), rowsOf(300)];
  const excerpt = (payload: object) => expect(jsonExcerpt(payload, 4_000).length === 4_000, "the excerpt");
  const subject = { payload: { a: "x" }, event: "push", headers: new Headers() };
  const length = 100_000;
  const render = (template: string) => expect(renderTemplate(template, subject) === template, "the template");
  const [open, endless, harmless] = ["{".repeat(length), `{${"a.".repeat(length / 2)}`, "x".repeat(length)];
  return [
    compare({
      name: "excerpt of a payload of 300000 rows, by one of 300",
      work: () => excerpt(large),
      bare: () => excerpt(small),
      times: 100,
    }),
    compare({
      name: `template of ${length} open braces, by as many letters`,
      work: () => render(open),
      bare: () => render(harmless),
    }),
    compare({
      name: `template with an open path of ${length} characters, by as many letters`,
      work: () => render(endless),
      bare: () => render(harmless),
    }),
  ];
}

/** Control: a trim of the same text, which looks at every space, too. */
function commands(): readonly BenchRow[] {
  const spaces = " ".repeat(100_000);
  const [behind, before] = [`${spaces}x`, `/a${spaces}`];
  return [
    compare({
      name: "a text behind 100000 spaces is no command, by a trim",
      unit: "us",
      work: () => expect(parseCommand(behind) === undefined, "the text behind spaces"),
      bare: () => expect(behind.trim() === "x", "the trim"),
      times: 50,
    }),
    compare({
      name: "a command before 100000 spaces, by a trim",
      unit: "us",
      work: () => expect(parseCommand(before)?.name === "a", "the command before spaces"),
      bare: () => expect(before.trim() === "/a", "the trim"),
      times: 50,
    }),
  ];
}

/** The worst of what a page may consist of. */
function plainTexts(): readonly BenchRow[] {
  const pieces = ["<script>", "<style ", "<!--", "<", "</", "&#", " \n", "<p", "<a>", "<head>", "</script"];
  const fill = (piece: string) => piece.repeat(PLAIN_CHARACTERS / piece.length);
  const msOf = (text: string) => msEach(() => expect(typeof plainText(text) === "string", "the text"), 1);
  const harmless = fill("word ");
  msOf(harmless);
  const control = msOf(harmless);
  const took = pieces.map((piece) => ({ piece, ms: msOf(fill(piece)) })).toSorted((a, b) => b.ms - a.ms);
  const [worst] = took;
  if (!worst) throw new Error("there is nothing to read");
  const name = `plain text of 5 MB of the worst piece, ${JSON.stringify(worst.piece)}, by as many words`;
  return [toRow(name, worst.ms, control)];
}

/** Each on a thread, which is stopped after a while. Control: an ordinary page. */
async function pages(): Promise<readonly BenchRow[]> {
  const sentence = "Some words, and more words, that make up a paragraph which counts as text. ";
  const wrap = (inside: string) => `<html><head><title>Evil &amp; odd</title></head><body>${inside}`;
  const article = wrap(`<article><h1>Head</h1>${`<p>${sentence.repeat(4)}</p>`.repeat(4)}</article>`);
  const hostile = {
    "nested elements": wrap(`${"<div>".repeat(100_000)}bottom`),
    "items in items": wrap(`<ol>${"<li>item, is here".repeat(100_000)}</ol>bottom`),
    "empty lines": wrap(
      `<p>${sentence.repeat(20)}</p><pre>${"\n".repeat(400_000)}x${"\n ".repeat(400_000)}</pre>bottom`,
    ),
    "open brackets": wrap(`${"<".repeat(2_000_000)}<p>bottom`),
  };
  const ordinary = { html: article, isBare: false, end: "counts as text." };
  await pageMs(ordinary);
  const control = median([await pageMs(ordinary), await pageMs(ordinary), await pageMs(ordinary)]);
  const rows: BenchRow[] = [];
  for (const [name, html] of Object.entries(hostile)) {
    const ms = await pageMs({ html, isBare: true, end: "bottom" });
    rows.push(
      toRow(`page of ${name}, stopped after ${PAGE_TIMEOUT_MS} ms, by an ordinary page`, ms, control),
    );
  }
  return rows;
}

interface Page {
  readonly html: string;
  readonly isBare: boolean;
  readonly end: string;
}

async function pageMs({ html, isBare, end }: Page): Promise<number> {
  const startMs = performance.now();
  const page = await readPage(html, {
    url: "https://site.example/docs/page.html",
    // An ordinary page is not what is stopped, however busy the machine is.
    timeoutMs: isBare ? PAGE_TIMEOUT_MS : 60_000,
    signal: new AbortController().signal,
  });
  const tookMs = performance.now() - startMs;
  const isWhole = page.title === "Evil & odd" && page.markdown.endsWith(end);
  expect(page.isBare === isBare && isWhole, `the page ${html.slice(60, 120)}`);
  return tookMs;
}

await runAlone(import.meta.url, run);
