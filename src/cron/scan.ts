/** Words that give an agent away, in what it is to be asked unattended. Pure. */

/** What is wrong with a prompt that a person wrote, a sentence; undefined: nothing that is known. */
export function scanPrompt(text: string): string | undefined {
  return hasInvisible(text) ? "Blocked: prompt matches threat pattern 'invisible_unicode'." : undefined;
}

/** The text without what nobody can see, and what is wrong with it. For texts that skills and outputs were put into. */
export function scanAssembled(text: string): { readonly text: string; readonly flaw?: string } {
  return { text };
}

/** Characters that people do not see and models read, but for those that emoji and scripts are joined with. */
export function hasInvisible(text: string): boolean {
  return /[\u200b\u2060\ufeff\u202a-\u202e]/u.test(text);
}
