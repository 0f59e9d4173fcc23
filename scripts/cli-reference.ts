/**
 * `npm run docs:cli`: writes the list of all commands and options into docs/cli.md, from the help texts of the program.
 * With `--check` it only compares, and fails if the page is out of date. The text above the marker is written by hand.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import type { CommandDef } from "citty";
import { globalOptionsOf, renderUsage, subCommandNames, subCommandOf } from "../src/cli/kit/command.ts";
import { rootCommand } from "../src/cli/root.ts";

const MARKER = "<!-- Below this line: written by `npm run docs:cli` from the help texts. Do not edit. -->";

/** Markdown wraps by itself. */
const UNWRAPPED = 1_000_000;

const { values } = parseArgs({
  options: {
    check: { type: "boolean", default: false },
    page: { type: "string", default: join(import.meta.dirname, "../docs/cli.md") },
  },
});
const current = await readFile(values.page, "utf8");
const [written] = current.split(MARKER);
if (written === undefined || written === current) throw new Error(`${values.page} has no line ${MARKER}`);
const wanted = `${written}${MARKER}\n\n${await referenceOf(rootCommand)}`;

if (!values.check) {
  await writeFile(values.page, wanted);
  console.log("docs/cli.md has all commands");
} else if (wanted === current) {
  console.log("docs/cli.md is what the help texts give");
} else {
  console.error("docs/cli.md differs from the help texts: run `npm run docs:cli` and commit the result");
  process.exitCode = 1;
}

async function referenceOf(root: CommandDef): Promise<string> {
  const pages = await Promise.all(
    (await subCommandNames(root)).map(async (name) => sectionsOf(root, ["agentd", name])),
  );
  return `${pages.flat().join("\n\n")}\n`;
}

/** Returns the section of a command, and those of the commands below it. */
async function sectionsOf(parent: CommandDef, names: readonly string[]): Promise<readonly string[]> {
  const command = await subCommandOf(parent, names.at(-1) ?? "");
  if (!command) throw new Error(`${names.join(" ")} is not a command`);
  const below = await Promise.all(
    (await subCommandNames(command)).map((name) => sectionsOf(command, [...names, name])),
  );
  const usage = await renderUsage(command, names, { width: UNWRAPPED, examples: [] });
  const globals = (await globalOptionsOf(command)).map(([label]) => label);
  return [
    printSection(names, usage, { aliases: aliasesOf(parent, names.at(-1) ?? ""), globals }),
    ...below.flat(),
  ];
}

/** Returns other names of a command, which its usage leaves out. */
function aliasesOf(parent: CommandDef, name: string): readonly string[] {
  const commands = parent.subCommands as Readonly<Record<string, object>> | undefined;
  const { aliases = [] } = (commands?.[name] ?? {}) as { readonly aliases?: readonly string[] };
  return aliases;
}

/** Prints a help text as Markdown, without the options that many commands have. */
function printSection(
  names: readonly string[],
  usage: string,
  { aliases, globals }: { readonly aliases: readonly string[]; readonly globals: readonly string[] },
): string {
  const start = usage.indexOf("Usage: ");
  const [line = "", ...lists] = usage.slice(start).split("\n\n");
  const printed = lists
    .filter((list) => /^(?:Commands|Arguments|Options):\n/.test(list))
    .map((list) => printList(names, list, globals));
  return [
    `${"#".repeat(Math.min(names.length, 4))} ${names.join(" ")}`,
    printDescription(usage.slice(0, start).trim()),
    aliases.length > 0 ? `Also called \`${aliases.join("`, `")}\`.` : "",
    `\`${line.replace("Usage: ", "")}\``,
    globals.some((label) => label.startsWith("--context")) ? "Also works on a server." : "",
    ...printed,
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

/** Indented lines of a description are examples. */
function printDescription(text: string): string {
  const lines = text.split("\n");
  const prose = lines.filter((line) => !line.startsWith("  "));
  const examples = lines.filter((line) => line.startsWith("  ")).map((line) => line.trim());
  const sentence = finished(markUp(prose.join(" ")));
  return examples.length === 0 ? sentence : `${sentence}\n\n\`\`\`\n${examples.join("\n")}\n\`\`\``;
}

function printList(names: readonly string[], list: string, globals: readonly string[]): string {
  const [title = "", ...rows] = list.split("\n");
  const items = rows.flatMap((row) => {
    const [, label = "", text = ""] = /^ {2}(\S+(?: \S+)*?)(?: {2,}(.*))?$/.exec(row) ?? [];
    if (label === "") throw new Error(`${names.join(" ")}: unreadable line of the help: ${row}`);
    if (globals.includes(label)) return [];
    const name = title === "Commands:" ? `[\`${label}\`](#${[...names, label].join("-")})` : `\`${label}\``;
    return [`- ${name}: ${finished(markUp(text))}`];
  });
  return items.length === 0 ? "" : `${title.replace(":", "")}:\n\n${items.join("\n")}`;
}

/** Puts words with angle brackets, options and stars into code, which Markdown would hide or change. */
function markUp(text: string): string {
  const parts = text.split("`");
  return parts
    .map((part, index) =>
      index % 2 === 1
        ? part
        : part.replaceAll(
            /(?<![\w`])(?:--[a-z][\w-]*|[\w.$/:=-]*(?:<[\w .-]+>|\{\w+\}|\w+_\w+)(?:[\w./:<>=-]*[\w>])?)/g,
            "`$&`",
          ),
    )
    .join("`");
}

function finished(text: string): string {
  return /[.!?:]$/.test(text) ? text : `${text}.`;
}
