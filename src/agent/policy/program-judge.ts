import { onlyLooking, publishers, riskOf } from "./command-table.ts";
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
  uniq: (rest, notes, name) =>
    operandsOf(rest)
      .slice(1)
      .forEach((word) => notes.write(word, name)),
};

export function judgeProgram(name: string, rest: readonly Word[], notes: ProgramNotes): void {
  subcommand(name, rest, notes);
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
  const sends = some(
    rest,
    /^(-[a-zA-Z]*[dFT]|--data.*|--form.*|--upload-file.*|--json.*|--post-(data|file).*|--body-(data|file).*)$/,
  );
  if (sends)
    notes.note(
      ask(`${name} ${sends.text} sends data to another machine`, notes.shape(name, rest), riskIn(name, rest)),
    );
  const method = some(rest, /^(-X|--request|--method)/);
  if (method)
    notes.note(
      ask(`${name} ${method.text} may change something on another machine`, notes.shape(name, rest)),
    );
  if (some(rest, /^(-K|--config|--use-askpass.*|-e|--execute)$/))
    notes.note(ask(`${name} takes options from elsewhere`, notes.shape(name, rest)));
  for (const [index, { text }] of rest.entries()) {
    const target = /^(-P|--directory-prefix|--output-dir|-c|--cookie-jar|-D|--dump-header)$/.test(text)
      ? rest[index + 1]
      : undefined;
    if (target) notes.write(target, name);
    const attached = /^-[oO]([./~].*)$/.exec(text)?.[1];
    if (attached !== undefined) notes.write({ ...unquotedWord, text: attached }, name);
  }
}

const unquotedWord: Word = { text: "", dynamic: false, glob: false, quoted: false, substitutions: [] };

function awk(rest: readonly Word[], notes: ProgramNotes, name: string): void {
  const starts = rest.find((word) => word.dynamic || /system\s*\(|getline|\||>|@load/.test(word.text));
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
    /^(--to-command|--checkpoint-action|-I|--use-compress-program|--rsh-command|-TT|--unzip-command|--info-script|-F$)/,
  );
  if (starts) notes.note(ask(`${name} ${starts.text} starts other programs`, notes.shape(name, rest)));
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
