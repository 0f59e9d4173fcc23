import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { parseCommandLine } from "../../../../src/agent/policy/command-line.ts";

/** Each command's words; `?` marks what only running tells, `*` a pattern. */
function commandsOf(text: string): string[] {
  return parseCommandLine(text, { HOME: "/home/ada" }).commands.map(({ words }) =>
    words.map((word) => `${word.text}${word.dynamic ? "?" : ""}${word.glob ? "*" : ""}`).join(" "),
  );
}

const cases: readonly (readonly [string, readonly string[]])[] = [
  ["a b  c", ["a b c"]],
  ["a; b && c || d | e & f\ng", ["a", "b", "c", "d", "e", "f", "g"]],
  ["a 'b c' \"d e\" f\\ g", ["a b c d e f g"]],
  ["r\\m \"r\"'m' r\\\nm", ["rm rm rm"]],
  ['echo "a\\"b\\$c\\\\d\\e"', ['echo a"b$c\\d\\e']],
  ["echo '$x `y`'", ["echo $x `y`"]],
  ["$'\\x72\\155\\u0020'", ["rm "]],
  ["a # b; c\nd", ["a", "d"]],
  ["a#b", ["a#b"]],
  ["a=1 b=2 c d=3", ["c d=3"]],
  ["(a; b) | c", ["a", "b", "c"]],
  ["{ a; }", ["a"]],
  ["if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]],
  ["while a; do b; done", ["a", "b"]],
  ["! a", ["a"]],
  ["'if' a", ["if a"]],
  ["a $x ${y} $1 $? $", ["a ? ? ? ? $"]],
  ["a $HOME/x \"${HOME}\" ~/y ~ '~' ~bob", ["a /home/ada/x /home/ada /home/ada/y /home/ada ~ ~bob?"]],
  ["a * x?y [ab]* '*'", ["a ** x?y* [ab]** *"]],
  ["a {b,c} {1..3} {b} '{b,c}'", ["a {b,c}? {1..3}? {b} {b,c}"]],
  ["a $(b c) `d`", ["b c", "d", "a ? ?"]],
  ['a "$(b "$(c)")"', ["c", "b ?", "a ?"]],
  ["a ${x:-$(b)} $((1 + $(c)))", ["b", "c", "a ? ?"]],
  ["a <(b) >(c)", ["b", "c", "a ? ?"]],
  ["a `b \\`c\\``", ["c", "b ?", "a ?"]],
  ["a > x 2>> y < z 2>&1 &> w b", ["a b"]],
  ["cat <<E\n$(a) 'b\nE\nc", ["cat", "a", "c"]],
  ["cat <<'E'\n$(a)\nE\nc", ["cat", "c"]],
  ["cat <<-E <<F\n\ta\n\tE\nb\nF\nc", ["cat", "c"]],
  ['cat <<< "$(a)"', ["a", "cat"]],
  ["", []],
  [" \t\n", []],
];

test("text is taken apart into the commands that bash would run", () => {
  for (const [text, expected] of cases) {
    assert.deepEqual(commandsOf(text), expected, text);
    assert.deepEqual(parseCommandLine(text).unclear, [], text);
  }
});

test("words come out as bash's own words", () => {
  const words = [
    "'a b'",
    '"c\\"d"',
    "e\\ f",
    "$'g\\th'",
    "''",
    "i'j'\"k\"",
    "a\\\nb",
    "\\$x",
    "'\\'",
    '"\\a"',
  ];
  const text = `printf '%s\\0' ${words.join(" ")}`;
  const real = execFileSync("bash", ["-c", text], { encoding: "utf8" }).split("\0").slice(0, -1);
  const [command] = parseCommandLine(text).commands;
  assert.deepEqual(
    command?.words.slice(2).map((word) => word.text),
    real,
  );
});

test("assignments, redirections, pipes and substitutions are told apart", () => {
  const [first, second] = parseCommandLine("A='x y' a <in 2>err | b").commands;
  assert.deepEqual(
    first?.assignments.map(({ name, value }) => [name, value.text]),
    [["A", "x y"]],
  );
  assert.deepEqual(
    first?.redirections.map(({ operator, target }) => [operator, target.text]),
    [
      ["<", "in"],
      [">", "err"],
    ],
  );
  assert.deepEqual([first?.piped, second?.piped], [false, true]);
  assert.equal(parseCommandLine("a | (b)").commands[1]?.piped, true);
  assert.equal(parseCommandLine("a $(b)").commands[0]?.substituted, true);
  assert.equal(parseCommandLine("a <<E\nbody\nE").commands[0]?.redirections[0]?.body, "body");
});

test("what cannot be followed is told, never guessed", () => {
  for (const text of [
    "a 'b",
    'a "b',
    "a $(b",
    "a `b",
    "a ${b",
    "a <(b",
    "f() { a; }",
    "function f { a; }",
    "case a in b) c;; esac",
    "cat <<E\na",
  ]) {
    assert.notDeepEqual(parseCommandLine(text).unclear, [], text);
  }
  assert.match(parseCommandLine("a;".repeat(1_000)).unclear.join(), /more than 500 commands/);
  assert.match(parseCommandLine(`${"$(".repeat(20)}a${")".repeat(20)}`).unclear.join(), /too deeply/);
});
