/** The Ink components of the screen, and its colours. */
import { Box, useApp, useCursor, useInput, usePaste, Static, Text, type TextProps } from "ink";
import { createElement as h, type ReactNode, useContext, createContext } from "react";
import { pressesOf, type Press } from "./keys.ts";
import type { Frame } from "./presenter.ts";
import type { Line, Role } from "./text/line.ts";

interface AppProps {
  readonly frame: Frame;
  readonly hasColour: boolean;
  readonly isLight: boolean;
  /** Called with Ink's function that hands the terminal to another program. */
  readonly onSuspend: (suspend: Suspend) => void;
  readonly onPress: (press: Press) => void;
  readonly onPaste: (text: string) => void;
}

/** Runs a program that needs the terminal, and restores the screen afterwards. */
export type Suspend = (work: () => Promise<void>) => Promise<void>;

export function App({ frame, hasColour, isLight, onSuspend, onPress, onPaste }: AppProps): ReactNode {
  onSuspend(useApp().suspendTerminal);
  const { setCursorPosition } = useCursor();
  useInput((input, key) => pressesOf(input, key).forEach(onPress));
  usePaste(onPaste);
  setCursorPosition(frame.cursor);
  return h(
    PaletteContext.Provider,
    { value: hasColour ? (isLight ? LIGHT_COLOURS : COLOURS) : NO_COLOURS },
    h(Transcript, { key: frame.printSerial, serial: frame.printSerial, lines: frame.print }),
    h(
      Box,
      { flexDirection: "column" },
      ...frame.lines.map((line, index) => h(LineView, { key: index, line })),
    ),
  );
}

interface TranscriptProps {
  /** A new serial prints the lines. */
  readonly serial: number;
  readonly lines: readonly Line[];
}

function Transcript({ serial, lines }: TranscriptProps): ReactNode {
  // A new list for each batch, so that printed lines do not stay in memory.
  return h(Static<Line>, {
    key: serial,
    items: lines as Line[],
    children: (line, index) => h(LineView, { key: index, line }),
  });
}

function LineView({ line }: { readonly line: Line }): ReactNode {
  const palette = useContext(PaletteContext);
  if (line.every(({ text }) => text.trim() === "")) return h(Box, { height: 1 });
  const spans = line.map(({ text, role }, index) => {
    const look = palette[role];
    return look === undefined ? text : h(Text, { key: index, ...look }, text);
  });
  return h(Text, { wrap: "truncate-end" }, ...spans);
}

type Palette = Readonly<Record<Role, TextProps | undefined>>;

const COLOURS: Palette = {
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
  comment: { dimColor: true },
  string: { color: "green" },
  number: { color: "yellow" },
  keyword: { color: "magenta" },
  added: { color: "green" },
  removed: { color: "red" },
};

/** Yellow and cyan are hard to read on a light background. */
const LIGHT_COLOURS: Palette = {
  ...COLOURS,
  accent: { color: "blue" },
  code: { color: "blue" },
  number: { color: "blue" },
  warning: { color: "magenta" },
};

const NO_COLOURS: Palette = {
  plain: undefined,
  dim: undefined,
  strong: { bold: true },
  accent: undefined,
  emphasis: undefined,
  // Without colours, code has to differ by its weight: its backticks are not shown.
  code: { bold: true },
  heading: { bold: true },
  thought: undefined,
  comment: undefined,
  string: undefined,
  number: undefined,
  keyword: undefined,
  good: undefined,
  warning: { bold: true },
  bad: { bold: true },
  added: undefined,
  removed: undefined,
};

const PaletteContext = createContext<Palette>(NO_COLOURS);
