/** git: reading and lossless changes run; discarding, rewriting, publishing and fetching code asks. */
import { operandsOf, type Call, type Rule } from "./program.ts";
import type { Risk } from "./risk.ts";
import { ANY, hasAny, isConstant } from "./words.ts";

interface Subcommand {
  /** The words with which it only reads; true: all. */
  readonly looks?: RegExp | true;
  /** Why it always asks. */
  readonly questions?: readonly [reason: string, risk: Risk];
  /** Words that make it ask. */
  readonly unless?: readonly [words: RegExp, reason: string, risk: Risk];
  /** Options whose value is a text, such as a message, and not a file name. */
  readonly texts?: RegExp;
}

const LOOKS: Subcommand = {
  looks: true,
  unless: [
    /^(--output|--ext-diff|--textconv|-O|--open-files|--no-index)/,
    "writes a file, starts other programs or reads elsewhere",
    "code",
  ],
};
const loses = (words: RegExp, reason: string, risk: Risk = "destructive"): Subcommand => ({
  unless: [words, reason, risk],
});
const questions = (reason: string, risk: Risk): Subcommand => ({ questions: [reason, risk] });
const looking =
  "status log diff show blame rev-parse ls-files ls-tree describe shortlog grep cat-file version rev-list merge-base name-rev whatchanged count-objects check-ignore show-ref for-each-ref var diff-tree diff-index cherry range-diff annotate";
const odd = /^(ext::|--(upload-p|receive-p|exec\b)|-u|-c$|--config)/;

const subcommands: ReadonlyMap<string, Subcommand> = new Map<string, Subcommand>([
  ...looking.split(" ").map((name) => [name, LOOKS] as const),
  [
    "add",
    loses(
      /^(-[a-zA-Z]*[fie]|--(force|interactive|edit|pathspec-from))/,
      "adds what is ignored, or starts an editor",
      "code",
    ),
  ],
  [
    "commit",
    {
      texts: /^(-[a-zA-Z]*m|--message|--author|--date|--trailer)/,
      unless: [
        /^(--amend|-[a-zA-Z]*[FtCc]$|--file|--template|--fixup|--squash|--reuse-message)/,
        "rewrites a commit, or takes its message from elsewhere",
        "rewriting",
      ],
    },
  ],
  [
    "branch",
    {
      looks: /^(|-[avrl]+|--(all|list|verbose|remotes|show-current|merged|no-merged|contains)(=.*)?)$/,
      unless: [
        /^(-[a-zA-Z]*[dDMCmcf]|--(delete|force|move|copy|edit))/,
        "deletes or moves branches",
        "destructive",
      ],
    },
  ],
  [
    "tag",
    {
      looks: /^(|-l|--list|-n\d*)$/,
      texts: /^-[a-zA-Z]*m|^--message/,
      unless: [/^(-[a-zA-Z]*[dfF]|--(delete|force|file))/, "deletes or moves tags", "destructive"],
    },
  ],
  [
    "remote",
    {
      looks: /^(|-v|--verbose|show|get-url)$/,
      unless: [/^(add|remove|rm|set-url|rename|set-head|prune|update)$/, "changes where commits go", "code"],
    },
  ],
  [
    "stash",
    {
      looks: /^(list|show)$/,
      texts: /^-m|^--message/,
      unless: [/^(drop|clear|store|create|-[a-zA-Z]*a|--all)$/, "may lose stashed changes", "destructive"],
    },
  ],
  ["reflog", { looks: /^(show)?$/, unless: [/^(expire|delete)$/, "deletes history", "destructive"] }],
  ["switch", loses(/^(-f|--force|--discard-changes|-C|--orphan)/, "discards changes")],
  [
    "worktree",
    {
      looks: /^list$/,
      unless: [/^(add|remove|prune|move|repair)$/, "makes or deletes working trees", "outside"],
    },
  ],
  ["mv", loses(/^-[a-z]*f|^--force/, "overwrites files")],
  ["rm", loses(/^-[a-z]*[rf]|^--force|[*?]/, "deletes files")],
  [
    "fetch",
    loses(
      new RegExp(`${odd.source}|^(-f|--force|\\+|--prune$|-p$)|:|^[./~]`),
      "may start other programs, reach elsewhere or overwrite references",
      "fetching",
    ),
  ],
  [
    "pull",
    loses(
      new RegExp(`${odd.source}|^(-f|--force|\\+|-r|--rebase|--autostash)|:|^[./~]`),
      "may start other programs, reach elsewhere or rewrite history",
      "fetching",
    ),
  ],
  ["merge", loses(/^(-X|--strategy|-s|--squash|--allow|--abort|--quit)/, "may discard changes")],
  ["cherry-pick", loses(/^(--abort|--quit|-X|-s$|--strategy)/, "may discard changes")],
  ["revert", loses(/^(--abort|--quit|-X|-s$|--strategy)/, "may discard changes")],
  ["init", loses(/^(--template|--separate-git-dir|-c|--config)/, "takes hooks from elsewhere", "code")],
  [
    "notes",
    {
      looks: /^(list|show)$/,
      unless: [/^(remove|prune|edit|merge)$/, "deletes or rewrites notes", "rewriting"],
    },
  ],
  [
    "config",
    {
      looks: /^(--get|--get-all|--get-urlmatch|--get-color.*|get)$/,
      questions: ["changes what git does", "steering"],
      unless: [
        /^(--list|-l|list|--get-regexp|-e|--edit|edit)$|extraheader/i,
        "shows headers and addresses, which may hold secrets, or starts an editor",
        "sensitive",
      ],
    },
  ],
  ["clone", questions("fetches code", "fetching")],
  [
    "submodule",
    {
      looks: /^(status|summary)$/,
      questions: ["fetches code, runs commands or deletes working trees", "fetching"],
    },
  ],
  [
    "checkout",
    {
      questions: [
        "may discard changes, where the word names a file; git switch changes the branch",
        "destructive",
      ],
    },
  ],
  [
    "reset",
    {
      questions: ["moves the branch, and may discard changes", "rewriting"],
      unless: [/^--(hard|merge|keep)/, "discards changes", "destructive"],
    },
  ],
  ["restore", questions("discards changes", "destructive")],
  [
    "rebase",
    {
      questions: ["rewrites history", "rewriting"],
      unless: [/^(-x|--exec|-i|--interactive)/, "starts other programs", "code"],
    },
  ],
  [
    "push",
    {
      questions: ["publishes commits", "outward"],
      unless: [
        /^(-[a-zA-Z]*[fd]|--(force|delete|mirror|prune)|[+:])/,
        "may delete or overwrite published commits",
        "destructive",
      ],
    },
  ],
  [
    "clean",
    {
      looks: /^(-[a-z]*n[a-z]*|--dry-run)$/,
      questions: ["deletes files that git does not keep", "destructive"],
    },
  ],
  [
    "apply",
    {
      looks: /^(--check|--stat|--numstat|--summary)$/,
      questions: ["changes the files of an unreviewed patch", "code"],
    },
  ],
  ["am", questions("changes the files of an unreviewed patch", "code")],
  ["gc", loses(/^--prune|^--aggressive/, "deletes objects")],
  ["filter-branch", questions("rewrites history", "destructive")],
  ["filter-repo", questions("rewrites history", "destructive")],
  ["update-ref", questions("moves references", "destructive")],
  ["prune", questions("deletes objects", "destructive")],
  ["replace", questions("rewrites history", "destructive")],
  ["daemon", questions("serves the repository", "outward")],
  ["instaweb", questions("serves the repository", "outward")],
  ["send-email", questions("sends mail", "outward")],
  ["credential", questions("shows credentials", "sensitive")],
  ["difftool", questions("starts other programs", "code")],
  ["mergetool", questions("starts other programs", "code")],
  ["bisect", questions("may start other programs, and changes local files", "code")],
  ["archive", questions("packs the repository, and may reach another machine", "outward")],
  ["bundle", questions("packs the repository into a file", "code")],
  ["format-patch", questions("writes files", "code")],
  ["maintenance", questions("changes what runs automatically", "system")],
  ["hook", questions("starts other programs", "code")],
]);

export const git: Rule = (call) => {
  const { args } = call;
  let at = 0;
  let folder = ".";
  for (; /^-./.test(args[at] ?? ""); at += 1) {
    const option = args[at] ?? "";
    if (/^(--version|--help|-h|-v)$/.test(option)) return;
    if (/^(-P|--no-pager|--no-optional-locks|--literal-pathspecs)$/.test(option)) continue;
    if (option !== "-C") return refuse(call, option, "changes what git runs, or where it works", "code");
    const next = args[(at += 1)] ?? ANY;
    folder = /^[/~]/.test(next) ? next : `${folder}/${next}`;
    call.read(folder);
  }
  const [name, ...rest] = args.slice(at);
  if (name !== undefined) return subcommand(call, name, { rest, folder });
};

function subcommand(
  call: Call,
  name: string,
  { rest, folder }: { readonly rest: readonly string[]; readonly folder: string },
): void {
  if (!isConstant(name)) return refuse(call, "?", "is only known at run time", "unclear");
  const rule = subcommands.get(name);
  if (!rule) return refuse(call, name, "is unknown, and may be an alias for anything", "code");
  // `--staged` alone only unstages files.
  if (
    name === "restore" &&
    rest.includes("--staged") &&
    rest.every((word) => isConstant(word) && !/^(-W|--worktree|-s|--source)/.test(word))
  )
    return call.write(folder);
  // A new branch loses nothing.
  if (
    name === "checkout" &&
    rest[0] === "-b" &&
    rest.length <= 3 &&
    rest.every((word, index) => isConstant(word) && (index === 0 || !word.startsWith("-")))
  )
    return call.write(folder);
  const words = withoutTexts(rest, rule.texts);
  if (rule.looks === true) return look(call, name, { words, rule });
  if (name === "config" && words.length === 1 && /^\w[\w.-]*$/.test(words[0] ?? "")) return;
  const odd = words.find((word) => rule.unless?.[0].test(word));
  if (odd === undefined && rule.looks && isLook(words, rule.looks)) return readPaths(call, words);
  // A repository elsewhere is outside of the workspace, whatever the words name.
  call.write(folder);
  if (odd !== undefined) return refuse(call, name, rule.unless?.[1] ?? "", rule.unless?.[2] ?? "code");
  // An unknown word may be a decisive one.
  if (words.some(hasAny)) return refuse(call, name, "gets words that are only known at run time", "unclear");
  if (rule.questions) return refuse(call, name, rule.questions[0], rule.questions[1]);
  readPaths(call, words);
  if (name === "mv" || name === "rm") for (const path of operandsOf(words)) call.write(path);
}

function readPaths(call: Call, words: readonly string[]): void {
  for (const word of words) if (isConstant(word)) call.read(word);
}

function look(
  call: Call,
  name: string,
  { words, rule }: { readonly words: readonly string[]; readonly rule: Subcommand },
): void {
  const word =
    rule.looks === true
      ? words.find((each) => rule.unless?.[0].test(each) || each.startsWith(ANY))
      : undefined;
  if (word !== undefined) return refuse(call, name, rule.unless?.[1] ?? "", "code");
  readPaths(call, words);
}

/** Returns whether every word is a known reading word or its operand. */
function isLook(words: readonly string[], looks: RegExp): boolean {
  return looks.test(words[0] ?? "") && words.every(isConstant) && operandsOf(words).length <= 2;
}

/** Returns the words without the texts of options such as -m. */
function withoutTexts(words: readonly string[], texts: RegExp | undefined): readonly string[] {
  if (!texts) return words;
  return words.filter((word, index) => {
    const before = words[index - 1] ?? "";
    const isText =
      before.startsWith("-") && texts.test(before) && !before.includes("=") && !/^-[a-zA-Z]*m./.test(before);
    return (
      !isText &&
      !(word.startsWith("-") && texts.test(word) && (word.includes("=") || /^-[a-zA-Z]*m./.test(word)))
    );
  });
}

function refuse(call: Call, name: string, reason: string, risk: Risk): void {
  call.ask(`git ${name} ${reason}`, risk);
}
