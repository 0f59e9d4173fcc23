/** Maps Ink's input to named keys and text. */
import type { Key } from "ink";
import { clustersOf } from "./text/line.ts";

export type KeyName =
  | "enter"
  | "newline"
  | "tab"
  | "back-tab"
  | "escape"
  | "up"
  | "down"
  | "left"
  | "right"
  | "word-left"
  | "word-right"
  | "home"
  | "end"
  | "page-up"
  | "page-down"
  | "backspace"
  | "delete"
  | "delete-word"
  | "delete-word-right"
  | "clear-input"
  | "delete-to-end"
  | "yank"
  | "steer"
  | "send-now"
  | "paste-image"
  | "output"
  | "editor"
  | "redraw"
  | "models"
  | "sessions"
  | "history"
  | "interrupt"
  | "leave";

export type Press = { readonly key: KeyName } | { readonly text: string };

/** Returns the presses of a chunk of input, which has several when keys arrive fast. */
export function pressesOf(input: string, key: Key): readonly Press[] {
  if (key.eventType === "release") return [];
  const name = namedKey(input, key);
  if (name !== undefined) return [{ key: name }];
  if (key.ctrl || key.meta || key.super || key.hyper) return [];
  return typedPresses(input);
}

/** Cleans a paste or a prefill for the composer: only line breaks and tabs stay as control characters. */
export function toPlainInput(text: string): string {
  return text.replaceAll(/\r\n?/g, "\n").replaceAll(/[^\P{Control}\n\t]/gu, "");
}

const CONTROL_KEYS: Readonly<Record<string, KeyName>> = {
  a: "home",
  b: "left",
  c: "interrupt",
  d: "leave",
  e: "end",
  f: "right",
  j: "newline",
  g: "editor",
  k: "delete-to-end",
  l: "redraw",
  n: "down",
  o: "output",
  p: "up",
  r: "history",
  s: "sessions",
  t: "steer",
  u: "clear-input",
  v: "paste-image",
  w: "delete-word",
  x: "send-now",
  y: "yank",
};

const META_KEYS: Readonly<Record<string, KeyName>> = {
  b: "word-left",
  f: "word-right",
  d: "delete-word-right",
  m: "models",
};

function namedKey(input: string, key: Key): KeyName | undefined {
  const isWord = key.ctrl || key.meta;
  if (key.return) return key.meta || key.shift ? "newline" : "enter";
  if (key.tab) return key.shift ? "back-tab" : "tab";
  if (key.escape) return "escape";
  if (key.upArrow) return "up";
  if (key.downArrow) return "down";
  if (key.leftArrow) return isWord ? "word-left" : "left";
  if (key.rightArrow) return isWord ? "word-right" : "right";
  if (key.home) return "home";
  if (key.end) return "end";
  if (key.pageUp) return "page-up";
  if (key.pageDown) return "page-down";
  if (key.backspace) return isWord ? "delete-word" : "backspace";
  if (key.delete) return isWord ? "delete-word-right" : "delete";
  if (key.ctrl) return CONTROL_KEYS[input.toLowerCase()];
  return key.meta ? META_KEYS[input.toLowerCase()] : undefined;
}

/** Splits text at the control characters of keys that arrived in one chunk. */
function typedPresses(input: string): readonly Press[] {
  const presses: Press[] = [];
  let text = "";
  const flush = () => {
    if (text !== "") presses.push({ text });
    text = "";
  };
  const clusters = clustersOf(input.replaceAll("\r\n", "\r"));
  for (const [index, cluster] of clusters.entries()) {
    const name = controlKey(cluster, index === clusters.length - 1);
    if (name === undefined) {
      text += toPlainInput(cluster);
      continue;
    }
    flush();
    presses.push({ key: name });
  }
  flush();
  return presses;
}

/** Without bracketed paste, a return inside a chunk is a line of a paste; a final one sends. */
function controlKey(cluster: string, isLast: boolean): KeyName | undefined {
  if (cluster === "\r") return isLast ? "enter" : "newline";
  if (cluster === "\n") return "newline";
  if (cluster === "\t") return isLast ? "tab" : undefined;
  const code = cluster.charCodeAt(0);
  return code > 0 && code < 27 ? CONTROL_KEYS[String.fromCharCode(code + 96)] : undefined;
}
