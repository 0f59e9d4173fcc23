/**
 * Cleans text from outside (the model, tools, the gateway) for a terminal: it must not move the cursor, set the title,
 * write to the clipboard, answer for the user, or disguise a command.
 */

/**
 * Removes escape sequences and control characters; line breaks and tabs stay. Incomplete sequences, as in the middle of
 * a stream, lose their control characters.
 */
export function cleanText(text: string): string {
  if (!UNSAFE.test(text)) return text;
  return text
    .replace(STRINGS, "")
    .replace(CONTROL_SEQUENCES, "")
    .replace(SHORT_SEQUENCES, "")
    .replace(/\r*\n|\r+|[\u0085\u2028\u2029]/g, "\n")
    .replace(REST, "");
}

/** Returns {@link cleanText} on one line, at most `max` whole characters. */
export function cleanLine(text: string, max = 200): string {
  const line = Array.from(
    cleanText(text.slice(0, max * 8))
      .replace(/\s+/g, " ")
      .trim(),
  );
  return line.length <= max ? line.join("") : `${line.slice(0, max - 1).join("")}…`;
}

/** Returns {@link cleanText} of at most `max` code units, with a note about the rest. */
export function cleanHead(text: string, max: number): string {
  if (text.length <= max) return cleanText(text);
  return `${cleanText(text.slice(0, max))}\n… (${text.length - max} more characters)`;
}

/** Returns {@link cleanText} of the last `lines` lines, at most `max` code units, for growing output. */
export function cleanTail(text: string, { lines, max }: { lines: number; max: number }): string {
  return cleanText(text.slice(-max)).split("\n").slice(-lines).join("\n");
}

// oxlint-disable no-control-regex -- these patterns match control characters
/** Fast check: most text has no control character. */
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/;
/** OSC, DCS, SOS, PM and APC with their content: titles, clipboards, links. ECMA-48, 8.3. */
const STRINGS =
  /(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c]{0,65536}(?:\u0007|\u001b\\|\u009c)/g;
/** CSI: cursor, colours, modes. */
const CONTROL_SEQUENCES = /(?:\u001b\[|\u009b)[\u0030-\u003f]*[\u0020-\u002f]*[\u0040-\u007e]/g;
/** Escape with intermediates and a final character, such as character sets and resets. */
const SHORT_SEQUENCES =
  /\u001b(?:[\u0020-\u002f]+[\u0030-\u007e]|[\u0030-\u004f\u0051-\u0057\u0059\u005a\u005c\u0060-\u007e])/g;
/** C0 except tab and line break, DEL, C1, and bidi overrides, which could disguise a command. */
const REST = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/g;
