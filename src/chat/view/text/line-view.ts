/** One line of the screen. */
import { Box, Text } from "ink";
import { createElement as h, useContext, type ReactNode } from "react";
import type { Line } from "./line.ts";
import { PaletteContext } from "../palette.ts";

export function LineView({ line }: { readonly line: Line }): ReactNode {
  const palette = useContext(PaletteContext);
  if (line.every(({ text }) => text.trim() === "")) return h(Box, { height: 1 });
  const spans = line.map(({ text, role }, index) => {
    const look = palette[role];
    return look === undefined ? text : h(Text, { key: index, ...look }, text);
  });
  return h(Text, { wrap: "truncate-end" }, ...spans);
}
