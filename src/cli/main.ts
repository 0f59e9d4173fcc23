#!/usr/bin/env node
import process from "node:process";
import { rootCommand } from "./root.ts";
import { runCli } from "./chat/run.ts";

/** Options that work without a command. Editors replace the arguments of a command with those of its setup. */
const ALONE: ReadonlyMap<string, readonly string[]> = new Map([
  ["--version", ["version"]],
  ["-v", ["version"]],
  ["-V", ["version"]],
  ["--setup", ["acp", "--setup"]],
]);
const words = process.argv.slice(2);
const meant = words.length === 1 ? ALONE.get(words[0] ?? "") : undefined;
await runCli(rootCommand, meant ?? words);
