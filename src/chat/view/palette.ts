/** What the roles of spans look like. Without colour, weight and the signs in the text do all of the work. */
import type { TextProps } from "ink";
import { createContext } from "react";
import type { Role } from "./text/line.ts";

export type Palette = Readonly<Record<Role, TextProps | undefined>>;

export const COLOURS: Palette = {
  plain: undefined,
  dim: { dimColor: true },
  strong: { bold: true },
  accent: { color: "cyan" },
  emphasis: { italic: true },
  code: { color: "cyan" },
  heading: { bold: true, underline: true },
  thought: { dimColor: true, italic: true },
  good: { color: "green" },
  warning: { color: "yellow" },
  bad: { color: "red" },
  added: { color: "green" },
  removed: { color: "red" },
};

export const NO_COLOURS: Palette = {
  plain: undefined,
  dim: undefined,
  strong: { bold: true },
  accent: undefined,
  emphasis: undefined,
  code: undefined,
  heading: { bold: true },
  thought: undefined,
  good: undefined,
  warning: { bold: true },
  bad: { bold: true },
  added: undefined,
  removed: undefined,
};

export const PaletteContext = createContext<Palette>(NO_COLOURS);
