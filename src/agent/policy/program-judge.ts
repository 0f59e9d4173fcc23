import { onlyLooking, publishers, riskOf, riskyVariables } from "./command-table.ts";
import { ask, type Finding } from "./path-judge.ts";
import type { Risk } from "./risk.ts";
import type { Word } from "./shell-word.ts";

/** What the checks below tell about one program. */
export interface ProgramNotes {
  note(finding: Finding | undefined): void;
  write(word: Word, name: string): void;
  shape(name: string, rest: readonly Word[]): string;
}

type Check = (rest: readonly Word[], notes: ProgramNotes, name: string) => void;

/** Programs whose options decide whether they are ordinary. */
const checks: Readonly<Record<string, Check>> = {
  curl: download,
  wget: download,
  awk,
  gawk: awk,
  mawk: awk,
  nawk: awk,
  sed,
  gsed: sed,
  tar: archive,
  bsdtar: archive,
  unzip: archive,
  zip: archive,
  cpio: archive,
  chmod,
  cp: targetFolder,
  mv: targetFolder,
  ln: targetFolder,
  install: targetFolder,
  rsync,
  export: declare,
  declare,
  typeset: declare,
  readonly: declare,
  npm: installGlobally,
  pnpm: installGlobally,
  yarn: installGlobally,
  yq: inPlace,
  xxd: secondOperand,
  uniq: secondOperand,
};
/** Options by which ordinary programs start others or do more than they seem to. */
const startingOptions: ReadonlyMap<string, RegExp> = new Map(
  Object.entries({
    rg: /^--(pre|hostname-bin)(=|$)/,
    ag: /^--pager/,
    bat: /^--pager/,
    sort: /^--compress-p/,
    split: /^--filter/,
    less: /^\+|^-k|^--lesskey/,
    man: /^-[PH]|^--(pager|html|browser)/,
    fzf: /^--(preview|bind)/,
    make: /^--eval|^-E|\$\(shell/,
    gmake: /^--eval|^-E|\$\(shell/,
    go: /^-(toolexec|exec)/,
    gcc: /^-(wrapper|fplugin)/,
    mapfile: /^-C/,
    readarray: /^-C/,
    compgen: /^-[CWF]/,
    date: /^(-s|--set)/,
    ps: /^[a-zA-Z]*e[a-zA-Z]*$/,
    http: /^(POST|PUT|PATCH|DELETE)$|=/,
    xh: /^(POST|PUT|PATCH|DELETE)$|=/,
    kubectl: /^secrets?(\/|$)/,
  }),
);
/** Builtins that set variables by name or work out what stands in square brackets, commands in it too. */
const assigning =
  /^(let|test|\[|\[\[|printf|read|declare|typeset|local|export|readonly|unset|mapfile|readarray|getopts|for|select)$/;

function assign(name: string, rest: readonly Word[], notes: ProgramNotes): void {
  if (!assigning.test(name)) return;
  if (some(rest, /\[[^\]]*(\$\(|`)/))
    notes.note(ask(`${name} may run what stands in square brackets`, notes.shape(name, rest)));
  const names = name === "printf" ? rest.slice(1, rest[0]?.text === "-v" ? 2 : 1) : rest;
  const isSetting = /^(printf|read|for|select|mapfile|readarray|getopts|local)$/.test(name);
  const named =
    isSetting &&
    names.find((word) => /^[A-Z]/.test(word.text) && riskyVariables.test(word.text.split("=")[0] ?? ""));
  if (named)
    notes.note(ask(`setting ${named.text} changes what other commands do`, notes.shape(name, rest), "code"));
}

export function judgeProgram(name: string, rest: readonly Word[], notes: ProgramNotes): void {
  subcommand(name, rest, notes);
  assign(name, rest, notes);
  const starting = startingOptions.get(name);
  const started = starting && some(rest, starting);
  if (started)
    notes.note(ask(`${name} ${started.text} does more than ${name} seems to`, notes.shape(name, rest)));
  if (name === "sort") {
    const attached = /^-o(.+)$/.exec(some(rest, /^-o./)?.text ?? "")?.[1];
    if (attached !== undefined) notes.write({ ...unquotedWord, text: attached }, name);
  }
  if (Object.hasOwn(checks, name)) checks[name]?.(rest, notes, name);
}

function subcommand(name: string, rest: readonly Word[], notes: ProgramNotes): void {
  const operands = rest.filter((word) => !word.text.startsWith("-"));
  const looking = onlyLooking.get(name);
  if (looking && !(operands[0] && looking.has(operands[0].text)) && operands.length > 0) {
    notes.note(
      ask(
        `${name} ${operands[0]?.text} acts beyond the workspace`,
        notes.shape(name, rest),
        riskIn(name, rest),
      ),
    );
  }
  const publishing = publishers.get(name);
  const publishes = publishing && operands.slice(0, 3).find((word) => publishing.has(word.text));
  if (publishes)
    notes.note(
      ask(
        `${name} ${publishes.text} publishes or changes an account`,
        notes.shape(name, rest),
        riskIn(name, rest),
      ),
    );
}

/** What is worked out at run time may be anything. */
const riskIn = (name: string, rest: readonly Word[]): Risk =>
  rest.some((word) => word.dynamic) ? "unclear" : riskOf(name, rest);
const operandsOf = (rest: readonly Word[]): readonly Word[] =>
  rest.filter((word) => !word.text.startsWith("-"));
const some = (rest: readonly Word[], pattern: RegExp): Word | undefined =>
  rest.find((word) => pattern.test(word.text));

function download(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  const sends =
    name === "wget" && !some(rest, /^--(post|body)-/)
      ? undefined
      : some(
          rest,
          /^(-[sSLfkIivgGnNjlRq#0-6]*[dFTQ].*|--quote.*|--data.*|--form.*|--upload-file.*|--json.*|--post-(data|file).*|--body-(data|file).*)$/,
        );
  if (sends)
    notes.note(
      ask(`${name} ${sends.text} sends data to another machine`, notes.shape(name, rest), riskIn(name, rest)),
    );
  const method = some(rest, /^(-[sSLfkIivgGnNjlRq#0-6]*X|--request|--method)/);
  if (method)
    notes.note(
      ask(`${name} ${method.text} may change something on another machine`, notes.shape(name, rest)),
    );
  if (some(rest, /^(-K|--config|--use-askpass.*|-e|--execute)$/))
    notes.note(ask(`${name} takes options from elsewhere`, notes.shape(name, rest)));
  for (const [index, { text }] of rest.entries()) {
    const target =
      /^(-[a-zA-Z#]{1,8}[oP]|-[a-zA-Z]{1,8}O|-P|--directory-prefix|--output-dir|-c|--cookie-jar|-D|--dump-header)$/.test(
        text,
      )
        ? rest[index + 1]
        : undefined;
    if (target) notes.write(target, name);
    const attached = /^-[oO]([./~].*)$/.exec(text)?.[1];
    if (attached !== undefined) notes.write({ ...unquotedWord, text: attached }, name);
  }
}

const unquotedWord: Word = { text: "", dynamic: false, glob: false, quoted: false, substitutions: [] };

function awk(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  const starts = rest.find(
    (word) => word.dynamic || /system\s*\(|getline|print[^;}]*[|>]|@load|@include|^inplace$/.test(word.text),
  );
  if (starts) notes.note(ask(`${name}'s program may start commands or write files`, notes.shape(name, rest)));
}

function sed(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  // The commands e and w, and the same letters as flags of s///.
  const script = some(
    rest,
    /(^|[;{}\n\d$/!])\s*[eEwW](\s|$)|([/|#,@:!])[gpIiMm0-9]*[ew][gpIiMm0-9]*(\s|;|$|\s+\S)/,
  );
  if (script && /\s|^[eEwW]$|[ew]$/.test(script.text) && /^s|[;{\n\d$/]|^[eEwW]/.test(script.text)) {
    notes.note(ask(`${name}'s script may start commands or write files`, notes.shape(name, rest)));
  }
  if (!some(rest, /^(-[a-zA-Z]*i|--in-place)/)) return;
  const hasScript = some(rest, /^(-[a-zA-Z]*[ef]$|--expression|--file)/);
  for (const word of hasScript ? operandsOf(rest) : operandsOf(rest).slice(1)) notes.write(word, name);
}

function archive(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  const starts = some(
    rest,
    /^(--to-c|--ch\w*-a|--use-c|--I|--rsh-c|-TT|--unzip-c|--info-s|--new-vol|-F$|-[a-zA-Z]*I)/,
  );
  if (starts) notes.note(ask(`${name} ${starts.text} starts other programs`, notes.shape(name, rest)));
  const [bundle] = rest;
  if (name.endsWith("tar") && bundle && /^[a-zA-Z]*[CIF]/.test(bundle.text))
    notes.note(
      ask(`${name} ${bundle.text} may start other programs or write anywhere`, notes.shape(name, rest)),
    );
  if (some(rest, /^(-[a-zA-Z]*P|--absolute-names)$/))
    notes.note(ask(`${name} may write anywhere`, notes.shape(name, rest)));
  for (const [index, { text }] of rest.entries()) {
    const value =
      /^(-C|-d|--directory)$/.test(text) || (index === 0 && /^-?[a-zA-Z]*c[a-zA-Z]*f$/.test(text))
        ? rest[index + 1]
        : undefined;
    if (value) notes.write(value, name);
    const attached = /^--directory=(.*)$/.exec(text)?.[1] ?? /^-[Cd](.+)$/.exec(text)?.[1];
    if (attached !== undefined) notes.write({ ...unquotedWord, text: attached }, name);
  }
}

function chmod(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  if (some(rest, /^(-[a-zA-Z]*R|--recursive)$/))
    notes.note(ask("chmod -R changes the rights of many files", notes.shape(name, rest)));
  if (some(rest.slice(0, 2), /^(0?[2467]\d{3}|[ugoa]*[+=][rwxXt]*s[a-z]*)$/))
    notes.note(ask("chmod lets a program run as another user", notes.shape(name, rest)));
}

function secondOperand(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  for (const word of operandsOf(rest).slice(1)) notes.write(word, name);
}

function targetFolder(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  for (const [index, word] of rest.entries()) {
    const target = word.text === "-t" ? rest[index + 1] : undefined;
    if (target) notes.write(target, name);
    const attached = /^-t(.+)$/.exec(word.text)?.[1];
    if (attached !== undefined) notes.write({ ...word, text: attached }, name);
  }
}

function rsync(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  const risky = some(rest, /^(--del|--rsh|-[a-zA-Z]*e|--remove-source)|:/);
  if (risky)
    notes.note(ask(`rsync ${risky.text} deletes files or reaches another machine`, notes.shape(name, rest)));
}

function declare(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  const risky = some(
    rest,
    /^(LD_\w+|DYLD_\w+|PATH|BASH_ENV|ENV|IFS|HOME|PROMPT_COMMAND|GIT_\w+|NODE_OPTIONS|PYTHON\w+|PERL\w+)=/,
  );
  if (risky)
    notes.note(
      ask(
        `setting ${risky.text.split("=")[0]} changes what other commands do`,
        notes.shape(name, rest),
        "code",
      ),
    );
}

function installGlobally(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  if (some(rest, /^(-g|--global|global|--location=global)$/)) {
    notes.note(
      ask(`${name} installs for the whole user or machine`, notes.shape(name, rest), riskIn(name, rest)),
    );
  }
}

function inPlace(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  if (some(rest, /^(-[a-zA-Z]*i|--inplace|--in-place)/))
    operandsOf(rest).forEach((word) => notes.write(word, name));
}
