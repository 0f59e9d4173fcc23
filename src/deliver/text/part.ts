/** What a platform renders; `commonmark` is for those that render Markdown themselves. */
export type TextFormat =
  | "plain"
  | "signal"
  | "whatsapp"
  | "slack"
  | "telegram"
  | "matrix"
  | "email"
  | "commonmark";

/** How a platform counts: UTF-16 code units, code points, or bytes of UTF-8. */
export type TextUnit = "utf16" | "codepoints" | "bytes";

export interface PartsOptions {
  readonly format: TextFormat;
  /** Most that one part may have, in `unit`, in each of its forms; Infinity: never cut. At least 16. */
  readonly limit: number;
  readonly unit: TextUnit;
  /** Default 40. What does not fit into so many is left out, and the last part says so. */
  readonly maxParts?: number;
  /** Where the whole text is, for the note about what was left out, as in `the transcript of run run_1`. */
  readonly wholeIn?: string;
  /** Such as `@all`: what shall address nobody. Not for `signal`, whose ranges do not count what is put in. */
  readonly mentions?: readonly string[];
}

/** What one message of a long text says, in the forms that a platform may want. */
export interface Part {
  /** In the format that was asked for. For `matrix`, `email` and `signal`, which send forms side by side: as `plain`. */
  readonly text: string;
  /** `matrix`: the `formatted_body`; `email`: the body of the HTML alternative. Safe: no markup from outside. */
  readonly html?: string;
  /** `signal`: ranges of `text` for signal-cli, `start:length:STYLE` in UTF-16 code units. Absent: none. */
  readonly styles?: readonly string[];
  /** The same words without markup, for a platform that rejects the rich form. */
  readonly plain: string;
}
