/** Colours for code in ten languages. Loaded when the first code block is shown. */
import bash from "highlight.js/lib/languages/bash";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

const lowlight = createLowlight({ bash, diff, go, json, python, rust, sql, typescript, xml, yaml });
lowlight.registerAlias({ typescript: ["js", "jsx", "tsx", "javascript"], bash: ["shell", "console", "sh"] });

/** Longer code would hold up the page. */
const MAX_CHARACTERS = 50_000;

export interface CodeNode {
  readonly text?: string;
  readonly className?: string;
  readonly children?: readonly CodeNode[];
}

/** Returns the parts of the code with their classes; undefined for an unknown language or very long code. */
export function highlight(language: string, code: string): readonly CodeNode[] | undefined {
  if (!lowlight.registered(language) || code.length > MAX_CHARACTERS) return undefined;
  return lowlight.highlight(language, code).children.map(toNode);
}

type Tree = ReturnType<typeof lowlight.highlight>["children"][number];

function toNode(node: Tree): CodeNode {
  if (node.type === "text") return { text: node.value };
  if (node.type !== "element") return {};
  const names = node.properties["className"];
  return {
    ...(Array.isArray(names) ? { className: names.join(" ") } : {}),
    children: node.children.map(toNode),
  };
}
