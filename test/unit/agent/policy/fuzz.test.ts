import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import fc from "fast-check";
import { parse } from "unbash";
import { decide } from "../../../../src/agent/question/policy/policy.ts";
import { Variables } from "../../../../src/agent/question/policy/variables.ts";
import { expandWord, isConstant } from "../../../../src/agent/question/policy/words.ts";
import { never, ordinary, risky } from "./commands.ts";
import { home } from "./rows.ts";

const decided = (command: string) =>
  decide({ kind: "command", title: "", command }, { mode: "ask", ...home });

const pieces = fc.constantFrom(
  ..."$( ) ` ' \" \\ { } [[ ]] [ ] (( )) ${ $(( <( >( << <<< < > >> | || & && ; ;; \n # * ? ~ = ! @ % , - + .. / .env ../.env".split(
    " ",
  ),
  ..." a b x=1 $x ${x:-y} ${x%y} ${!x} $@ for in do done while if then fi case esac f() function coproc time select until".split(
    " ",
  ),
  ..."rm cat eval xargs find read printf sed awk bash env git curl agentd sudo -rf -c -e -exec {} {a,b} {1..9} EOF 0x41 \u00e9 \u{1f600} \uE001".split(
    " ",
  ),
  " ",
  "\t",
  "\r",
  "\0",
);

test("the policy answers for every command and never throws", () => {
  const texts = fc.oneof(
    fc.string({ unit: "binary", maxLength: 200 }),
    fc.array(pieces, { maxLength: 60 }).map((parts) => parts.join("")),
    fc.array(pieces, { maxLength: 60 }).map((parts) => parts.join(" ")),
  );
  fc.assert(
    fc.property(texts, (text) => {
      const { outcome, reason, remember } = decided(text);
      assert.match(outcome, /^(allow|ask|deny)$/);
      assert.ok(reason.length > 0 && remember.length > 0);
    }),
    { numRuns: 3_000 },
  );
});

test("a command that asks or is refused does so after other commands, in a group, in a subshell and after a word", () => {
  const around = fc.constantFrom(
    (text: string) => `ls; ${text}`,
    (text: string) => `ls\n${text}`,
    (text: string) => `{ ${text}\n}`,
    (text: string) => `( ${text}\n)`,
    (text: string) => `if true; then ${text}\nfi`,
    (text: string) => `echo "$(${text}\n)"`,
    (text: string) => `f() { ${text}\n}; f`,
    (text: string) => `while true; do ${text}\ndone`,
    (text: string) => `bash -c '${text.replaceAll("'", `'\\''`)}'`,
    (text: string) => `eval '${text.replaceAll("'", `'\\''`)}'`,
  );
  const minded = [...risky, ...never].filter(
    (text) => parse(text).errors === undefined && !/^[IH]\w+=|<<|\$1|"\$@"/.test(text),
  );
  fc.assert(
    fc.property(
      fc.constantFrom(...minded),
      fc.array(around, { minLength: 1, maxLength: 3 }),
      (text, wrappings) => {
        const wrapped = wrappings.reduce((inner, wrap) => wrap(inner), text);
        assert.notEqual(decided(wrapped).outcome, "allow", wrapped);
      },
    ),
    { numRuns: 2_000 },
  );
});

test("a command made of ordinary ones is ordinary", () => {
  // Without variables and functions: their assignments count anywhere in the text.
  const plain = ordinary.filter(
    (text) => !/<<|\$|\b(export|cd|set|trap|read|shopt|eval|sleep|exit)\b|\w\(\)/.test(text),
  );
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...plain), { minLength: 2, maxLength: 4 }), (texts) => {
      const joined = texts.join("\n");
      const { outcome, reason } = decided(joined);
      assert.equal(outcome, "allow", `${joined}: ${reason}`);
    }),
    { numRuns: 500 },
  );
});

test("words are expanded as bash expands them, as far as they are known before run time", () => {
  const words = [
    "'a b'",
    '"c\\"d"',
    "e\\ f",
    "$'g\\th'",
    "$'\\x72\\155\\u0020'",
    "''",
    "i'j'\"k\"",
    "a\\\nb",
    "\\$x",
    "'\\'",
    '"\\a"',
    "{a,b}c",
    "x{1,{2,3}}y",
    "{a,b}{c,d}",
    "'{a,b}'",
    "~",
    "~/x",
    "'~'",
    "$A",
    '"$A"',
    "x$A",
    "${A}y",
    "$B$A",
    "${C:-d}",
    "${A%c}",
    "${A#b}",
    '"${L[@]}"',
    "${L[1]}",
    "$(echo hi)",
    '"$(printf "%s" "a b")"',
    "$EMPTY",
    '"$EMPTY"',
    "z$S$A",
  ];
  const settings = "A='b c'; B=b; EMPTY=; L=(p 'q r'); S=' s '; unset C; ";
  const text = `${settings}printf '%s\\0' ${words.join(" ")}`;
  const env = { HOME: home.home, PATH: process.env["PATH"] ?? "" };
  const real = execFileSync("bash", ["-c", text], { encoding: "utf8", env }).split("\0").slice(0, -1);
  const script = parse(text);
  const variables = new Variables(home);
  variables.collect(script);
  const command = script.commands.at(-1)?.command;
  assert.ok(command?.type === "Command");
  const wanted = real.filter((field) => field !== "");
  let at = 0;
  for (const word of command.args.slice(1)) {
    const alternatives = word.type === "Word" ? expandWord(word, variables) : [];
    const match = alternatives
      .map((fields) => fields.filter((field) => field !== ""))
      .find((fields) => fields.every((field, index) => isConstant(field) && field === wanted[at + index]));
    assert.ok(match, `${word.text}: ${JSON.stringify(alternatives)} for ${JSON.stringify(wanted[at])}`);
    at += match.length;
  }
  assert.equal(at, wanted.length);
});
