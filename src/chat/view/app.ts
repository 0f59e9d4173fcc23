/** The whole screen: what is printed, what is live, and the keys. */
import { Box, useCursor, useInput, usePaste } from "ink";
import { createElement as h, type ReactNode } from "react";
import { pressesOf, type Press } from "./keys.ts";
import { LineView } from "./text/line-view.ts";
import { COLOURS, NO_COLOURS, PaletteContext } from "./palette.ts";
import type { Frame } from "./presenter.ts";
import { Transcript } from "./transcript.ts";

export interface AppProps {
  readonly frame: Frame;
  readonly hasColour: boolean;
  readonly onPress: (press: Press) => void;
  readonly onPaste: (text: string) => void;
}

export function App({ frame, hasColour, onPress, onPaste }: AppProps): ReactNode {
  const { setCursorPosition } = useCursor();
  useInput((input, key) => pressesOf(input, key).forEach(onPress));
  usePaste(onPaste);
  setCursorPosition(frame.cursor);
  return h(
    PaletteContext.Provider,
    { value: hasColour ? COLOURS : NO_COLOURS },
    h(Transcript, { key: frame.printSerial, serial: frame.printSerial, lines: frame.print }),
    h(
      Box,
      { flexDirection: "column" },
      ...frame.lines.map((line, index) => h(LineView, { key: index, line })),
    ),
  );
}
