import assert from "node:assert/strict";
import { test } from "node:test";
import { markdownLines, markdownStateAfter } from "../../../src/chat/view/text/markdown.ts";
import { lineWidth, textOf } from "../../../src/chat/view/text/line.ts";
import { testScreen } from "./screen.ts";
import { IDLE, TURN } from "./states.ts";

/** The text of each role in a block of code. */
function roles(language: string, code: string, role: string): readonly string[] {
  const { lines } = markdownLines(`\`\`\`${language}\n${code}\n\`\`\``, 200);
  return lines
    .slice(1)
    .flat()
    .filter((span) => span.role === role)
    .map(({ text }) => text);
}

for (const [language, code, expected] of [
  [
    "ts",
    'const a = "x // y"; // why\nreturn 0x1f + 2.5; /* one\ntwo */ let b = `t\nu`;',
    {
      keyword: ["const", "return", "let"],
      string: ['"x // y"', "`", "t", "u`"],
      number: ["0x1f", "2.5"],
      comment: ["// why", "/*", " one", "two */"],
    },
  ],
  [
    "python",
    'def f(x):\n  """doc\n  more"""\n  return None # why',
    { keyword: ["def", "return", "None"], string: ['"""', "doc", '  more"""'], comment: ["# why"] },
  ],
  [
    "sh",
    'if true; then echo "$#"; fi # done',
    { keyword: ["if", "then", "echo", "fi"], comment: ["# done"] },
  ],
  ["SQL", "SELECT a FROM t -- why\nWHERE b = 'it''s'", { keyword: ["SELECT", "FROM", "WHERE"] }],
  ["json", '{"a": true, "b": 12}', { keyword: ["true"], string: ['"a"', '"b"'], number: ["12"] }],
  ["go", 'func main() { s := "a\\"b" }', { keyword: ["func"], string: ['"a\\"b"'] }],
  ["diff", "@@ -1 +1 @@\n-old\n+new\n same", { added: ["+new"], removed: ["-old"] }],
] as const) {
  test(`a block of ${language} marks its comments, strings, numbers and keywords`, () => {
    for (const [role, texts] of Object.entries(expected)) {
      assert.deepEqual(roles(language, code, role), texts, role);
    }
  });
}

test("code in an unknown language, and a very long line, have one role and all their text", () => {
  assert.deepEqual(roles("brainf", "if x", "code"), ["if x"]);
  const long = `const a = "${"x".repeat(3_000)}";`;
  assert.equal(roles("ts", long, "keyword").length, 0);
});

test("highlighting neither adds nor drops a character", () => {
  const code = 'a /* b */ c "d\\" e\' f # g\n`h ${i} //\n\tj 1_000n 0b1 日本語 "\n';
  for (const language of ["ts", "c", "py", "sh", "sql", "json", "html", "rb"]) {
    const { lines } = markdownLines(`\`\`\`${language}\n${code}\`\`\``, 500);
    const text = textOf(lines.slice(1)).replaceAll(/^ {2}/gm, "");
    assert.equal(`${text}\n`, code.replaceAll("\t", "    "), language);
  }
});

test("a comment over several lines keeps its colour when the answer is drawn in pieces", () => {
  const text = "```ts\nlet a = 1; /* one\nconst two\n*/ const b = 2;\n```\nend";
  const whole = markdownLines(text, 60).lines;
  const lines = text.split("\n");
  for (let cut = 1; cut < lines.length; cut++) {
    const head = markdownLines(lines.slice(0, cut).join("\n"), 60);
    const rest = markdownLines(lines.slice(cut).join("\n"), 60, head.state);
    assert.deepEqual([...head.lines, ...rest.lines], whole);
    assert.deepEqual(markdownStateAfter(lines.slice(0, cut).join("\n")), head.state);
  }
});

const TABLE = [
  "| Name | Count | What |",
  "| :--- | ---: | :-: |",
  "| `a|b` | 5 | x |",
  "| **long** | 1200 | y \\| z |",
  "| 日本 |",
].join("\n");

test("a table is drawn with aligned columns, and its cells keep their marks", () => {
  const { lines } = markdownLines(`before\n${TABLE}\n\nafter`, 80);
  assert.equal(
    textOf(lines).replaceAll(/ +$/gm, ""),
    [
      "before",
      "Name  Count  What",
      "────  ─────  ─────",
      "a|b       5    x",
      "long   1200  y | z",
      "日本",
      "",
      "after",
    ].join("\n"),
  );
  const flat = lines.flat();
  assert.ok(flat.some(({ text, role }) => text === "long" && role === "strong"));
  assert.ok(flat.some(({ text, role }) => text === "a|b" && role === "code"));
});

test("a wide table is cut to the terminal, every row on one line", () => {
  const row = `| ${"first ".repeat(20)} | ${"second ".repeat(20)} | 3 |`;
  const { lines } = markdownLines(`| a | b | c |\n|---|---|---|\n${row}`, 40);
  assert.equal(lines.length, 3);
  for (const line of lines) assert.ok(lineWidth(line) <= 40, textOf([line]));
  assert.match(textOf(lines), /first .*….*second.*…/);
});

test("bars without a table stay as they are written", () => {
  for (const text of ["a | b", "| a | b |\nno table", "a || b\n---", "```\n| a |\n|---|\n```"]) {
    assert.doesNotMatch(textOf(markdownLines(text, 80).lines), /──  /, text);
  }
  assert.equal(textOf(markdownLines("a | b\nc || d", 80).lines), "a | b\nc || d");
});

test("a table that streams over the height of the screen is printed once, whole and aligned", () => {
  const rows = Array.from({ length: 40 }, (_, index) => `| ${index} | ${"x".repeat(index + 1)} |`);
  const text = ["intro", "", "| n | bar |", "|---:|---|", ...rows, "", "the end"].join("\n");
  const streaming = (count: number) => ({
    ...IDLE,
    turn: TURN,
    live: [{ kind: "assistant", id: "a1", text: text.slice(0, count), status: "streaming" } as const],
  });
  using screen = testScreen(streaming(1), { rows: 20, columns: 80 });
  for (let count = 7; count < text.length; count += 7) screen.change(streaming(count));
  screen.change({ ...IDLE, settled: [{ kind: "assistant", id: "a1", text, status: "complete" }] });
  const printed = textOf(screen.printed);
  for (let index = 0; index < 40; index++) {
    const shown = printed.match(new RegExp(`^ {2}${String(index).padStart(2)}  x{${index + 1}} *$`, "gm"));
    assert.equal(shown?.length, 1, `row ${index}:\n${printed}`);
  }
  assert.match(printed, /the end/);
  assert.doesNotMatch(printed, /\|/);
});
