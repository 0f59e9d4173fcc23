/** Jobs that would stop or start the service that runs them. Pure. */

/** A sentence; undefined when the text asks for no such thing. */
export function lifecycleFlaw(_text: string, _what: "prompt" | "script"): string | undefined {
  return undefined;
}
