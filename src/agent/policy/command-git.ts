import type { Risk } from "./risk.ts";
import type { Word } from "./shell-word.ts";

const looking = new Set(
  "status log diff show blame branch tag remote rev-parse ls-files ls-tree describe shortlog grep cat-file reflog version help rev-list merge-base name-rev whatchanged count-objects check-ignore".split(
    " ",
  ),
);
const always: Readonly<Record<string, string>> = {
  push: "publishes commits",
  clean: "deletes files that git does not keep",
  restore: "discards changes",
  "filter-branch": "rewrites history",
  "filter-repo": "rewrites history",
  "update-ref": "moves references",
  prune: "deletes objects",
  daemon: "serves the repository",
  "send-email": "sends mail",
  config: "changes what git does",
  credential: "shows credentials",
  difftool: "starts other programs",
  mergetool: "starts other programs",
  bisect: "may start other programs",
  archive: "may reach another machine",
};
/** Options that make a harmless subcommand destructive. */
const options: Readonly<Record<string, readonly [RegExp, string]>> = {
  reset: [/^--(hard|merge|keep)/, "discards changes"],
  checkout: [/^(-f|--force|--|\.)$|^-[a-z]*f/, "discards changes"],
  switch: [/^(-f|--force|--discard-changes|-C)$/, "discards changes"],
  branch: [/^(-[a-zA-Z]*[dDMCf]|--delete|--force|--move)/, "deletes or moves branches"],
  tag: [/^(-[a-zA-Z]*[df]|--delete|--force)/, "deletes or moves tags"],
  stash: [/^(drop|clear)$/, "may lose stashed changes"],
  reflog: [/^(expire|delete)$/, "deletes history"],
  gc: [/^--prune/, "deletes objects"],
  rm: [/^-[a-z]*[rf]|^--force/, "deletes files"],
  worktree: [/^(remove|prune)$/, "deletes working trees"],
  submodule: [/^(foreach|deinit)$/, "runs commands or deletes working trees"],
  rebase: [/^(-x|--exec|-i|--interactive)/, "starts other programs"],
  remote: [/^(add|remove|rm|set-url|rename)$/, "changes where commits go"],
  commit: [/^--amend$/, "rewrites a commit"],
  grep: [/^(-O|--open-files)/, "starts other programs"],
  diff: [/^(--output|--ext-diff)/, "writes a file or starts other programs"],
  log: [/^(--output|--ext-diff)/, "writes a file or starts other programs"],
  show: [/^(--output|--ext-diff)/, "writes a file or starts other programs"],
  clone: [/^(-c|-u|--config)/, "starts other programs"],
};
/** Ways of `git push` to overwrite or delete: options, `+branch`, `:branch`. */
const forcing = /^(-[a-zA-Z]*[fd]|--(force|delete|mirror|prune)|[+:])/;
const valueOptions = new Set(["-C", "--git-dir", "--work-tree", "--namespace"]);

export interface GitVerdict {
  readonly subcommand: string;
  readonly looksOnly: boolean;
  /** Undefined when the command is ordinary. */
  readonly reason: string | undefined;
  readonly risk: Risk;
}

/** What a git command does; `words` start behind the word git. */
export function judgeGit(words: readonly Word[]): GitVerdict {
  let at = 0;
  while (words[at]?.text.startsWith("-")) {
    const option = words[at]?.text ?? "";
    if (/^(-c|--config-env|--exec-path)/.test(option)) return ask(option, "changes what git runs");
    at += valueOptions.has(option) ? 2 : 1;
  }
  const subcommand = words[at];
  if (subcommand === undefined) return fine("", true);
  const rest = words.slice(at + 1);
  const name = subcommand.text;
  if (subcommand.dynamic) return ask(name, "its git subcommand is worked out at run time", "unclear");
  if (name === "config" && /^(--get.*|--list|-l|list|get)$/.test(rest[0]?.text ?? ""))
    return fine(name, true);
  if (name === "push" && rest.some(({ text, dynamic }) => dynamic || forcing.test(text)))
    return ask(name, "may delete or overwrite published commits");
  if (Object.hasOwn(always, name)) return ask(name, always[name] ?? "");
  const rule = Object.hasOwn(options, name) ? options[name] : undefined;
  if (
    rule &&
    rest.some((word) => word.dynamic && /^(reset|checkout|switch|branch|stash|rebase)$/.test(name))
  ) {
    return ask(name, "its git options are worked out at run time", "unclear");
  }
  if (rest.some(({ text }) => /^(ext::|--(upload-p|receive-p|exec\b))/.test(text)))
    return ask(name, "starts other programs");
  const operands = rest.filter(({ text }) => !text.startsWith("-"));
  if (name === "checkout" && operands.length > 1 && operands.length === rest.length)
    return ask(name, "discards changes");
  if (rule && rest.some((word) => rule[0].test(word.text))) return ask(name, rule[1]);
  return fine(name, looking.has(name) && (rest.length === 0 || !/^(branch|tag|remote|reflog)$/.test(name)));
}

const fine = (subcommand: string, looksOnly: boolean): GitVerdict => ({
  subcommand,
  looksOnly,
  reason: undefined,
  risk: "none",
});
const ask = (subcommand: string, reason: string, risk = riskOfReason(reason)): GitVerdict => ({
  subcommand,
  looksOnly: false,
  reason,
  risk,
});

function riskOfReason(reason: string): Risk {
  if (/^(publishes|serves|sends|may reach)/.test(reason)) return "outward";
  if (/^(changes (what git runs|what git does|where commits go)|.*starts? other programs)/.test(reason))
    return "code";
  return reason === "shows credentials" ? "sensitive" : "destructive";
}
