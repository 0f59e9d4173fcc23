/** `agentd completion`: prints a script for a shell. It contains all commands, so that completing a word starts no program. */
import { defineCommand, type CommandDef } from "citty";
import { suggest } from "../../base/suggest.ts";
import { UsageError } from "../kit/arguments.ts";
import { requiredArgument } from "../kit/options.ts";
import { printData } from "../kit/output.ts";
import { commandTree, type CommandNode, type OptionNode } from "./tree.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** Returns the command that completes the commands below `root`. */
export function completionCommand(root: CommandDef) {
  return defineCommand({
    meta: {
      name: "completion",
      description:
        "Print a script that completes the commands and options of agentd. For example, add `source <(agentd completion bash)` to ~/.bashrc",
    },
    args: { shell: requiredArgument(`One of ${SHELLS.join(", ")}`) },
    async run({ args }) {
      const shell = SHELLS.find((name) => name === args.shell);
      if (shell === undefined)
        throw new UsageError(`Unknown shell ${JSON.stringify(args.shell)}${suggest(args.shell, SHELLS)}`);
      printData(completionScript(shell, await commandTree(root)));
    },
  });
}

const SCRIPTS: Readonly<Record<Shell, (tree: readonly CommandNode[]) => string>> = { bash, zsh, fish };

export function completionScript(shell: Shell, tree: readonly CommandNode[]): string {
  return SCRIPTS[shell](tree);
}

/** Bash splits words at `=`, so a value after `--name=` arrives as a word of its own. */
function bash(tree: readonly CommandNode[]): string {
  const choices = tree.flatMap(({ path, options }) =>
    options.flatMap(({ names, choices: values }) =>
      values.length === 0
        ? []
        : [`    ${names.map((name) => `${path}:${name}`).join("|")}) words="${values.join(" ")}" ;;`],
    ),
  );
  return `# bash completion of agentd. Load it with: source <(agentd completion bash)
_agentd() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} at="" words="" i
  if [[ $cur == "=" ]]; then cur=""; fi
  if [[ $prev == "=" ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at/\${COMP_WORDS[i]}" in
      ${pathPattern(tree)}) at="$at/\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$at:$prev" in
${choices.join("\n")}
    ${valuePattern(tree)}) return ;;
    *)
      case "$at" in
${tree.map((each) => `        ${quoted(each.path)}) words="${wordsOf(each).join(" ")}" ;;`).join("\n")}
      esac
      ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
# Where nothing of agentd fits, bash completes the names of files.
complete -o default -F _agentd agentd
`;
}

function zsh(tree: readonly CommandNode[]): string {
  const described = ({ commands, options }: CommandNode) =>
    [
      ...commands,
      ...options.flatMap(({ names, description }) => names.map((name) => [name, description] as const)),
    ]
      .map(([name, text]) => quoted(`${name}:${text}`))
      .join(" ");
  const choices = tree.flatMap(({ path, options }) =>
    options.flatMap(({ names, choices: values }) =>
      values.length === 0
        ? []
        : [
            `    ${names.map((name) => `${path}:${name}`).join("|")}) compadd -- ${values.join(" ")}; return ;;`,
          ],
    ),
  );
  return `#compdef agentd
# zsh completion of agentd. Load it with: source <(agentd completion zsh)
_agentd() {
  local at="" i
  local -a found
  for ((i = 2; i < CURRENT; i++)); do
    case "$at/\${words[i]}" in
      ${pathPattern(tree)}) at="$at/\${words[i]}" ;;
    esac
  done
  case "$at:\${words[CURRENT-1]}" in
${choices.join("\n")}
    ${valuePattern(tree)}) _files; return ;;
  esac
  case "$at" in
${tree.map((each) => `    ${quoted(each.path)}) found=(${described(each)}) ;;`).join("\n")}
  esac
  _describe 'agentd' found || _files
}
if [[ \${funcstack[1]-} == _agentd ]]; then _agentd "$@"; else compdef _agentd agentd; fi
`;
}

function fish(tree: readonly CommandNode[]): string {
  const lines = tree.flatMap(({ path, commands, options }) => {
    const start = `complete -c agentd -n '__agentd_at "${path}"'`;
    return [
      ...commands.map(([name, summary]) => `${start} -a ${name} -d ${fishQuoted(summary)}`),
      ...options.map((option) => `${start} ${fishOption(option)}`),
    ];
  });
  return `# fish completion of agentd. Load it with: agentd completion fish | source
function __agentd_at
  set -l at ""
  for word in (commandline -opc)[2..-1]
    if contains -- "$at/$word" ${tree.flatMap(({ path }) => (path === "" ? [] : [path])).join(" ")}
      set at "$at/$word"
    end
  end
  test "$at" = "$argv[1]"
end
complete -c agentd -f
${lines.join("\n")}
`;
}

function fishOption({ names, description, takesValue, choices }: OptionNode): string {
  const flags = names.map((name) => (name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`));
  const files = takesValue && choices.length === 0 ? ["-r -F"] : [];
  const values = choices.length > 0 ? [`-x -a ${fishQuoted(choices.join(" "))}`] : [];
  return [...flags, ...files, ...values, "-d", fishQuoted(description)].join(" ");
}

function wordsOf({ commands, options }: CommandNode): readonly string[] {
  return [...commands.map(([name]) => name), ...options.flatMap(({ names }) => names)];
}

/** Returns a shell pattern of all commands. */
function pathPattern(tree: readonly CommandNode[]): string {
  return tree.flatMap(({ path }) => (path === "" ? [] : [path])).join("|");
}

/** Returns a shell pattern of the options whose value can be any text. */
function valuePattern(tree: readonly CommandNode[]): string {
  return tree
    .flatMap(({ path, options }) =>
      options.flatMap(({ names, takesValue, choices }) =>
        takesValue && choices.length === 0 ? names.map((name) => `${path}:${name}`) : [],
      ),
    )
    .join("|");
}

/** Returns a word in single quotes, for bash and zsh. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", String.raw`\'`)}'`;
}
