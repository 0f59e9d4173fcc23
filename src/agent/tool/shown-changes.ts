import type { FileChange } from "../../../generated/http/client/types.gen.ts";
import { redactValue } from "../../base/observe/redact.ts";

/** Texts of all files of a call together: an event is stored, and sent to everybody who follows. */
const MAX_TEXTS_CHARACTERS = 1_048_576;

/** What a call changes in files as people see it, redacted. Files for whose texts there is no room have their diff. */
export function shownChanges(changes: readonly FileChange[]): FileChange[] {
  let left = MAX_TEXTS_CHARACTERS;
  const bounded = changes.map((change) => {
    const { old_text: before, new_text: after, ...others } = change;
    left -= (before?.length ?? 0) + (after?.length ?? 0);
    if (left >= 0) return change;
    return { ...others, size: Math.max(Buffer.byteLength(before ?? ""), Buffer.byteLength(after ?? "")) };
  });
  return redactValue(bounded) as FileChange[];
}

/** Diffs of all files of a question together: it is stored, and sent to everybody who may answer. */
const MAX_DIFF_CHARACTERS = 65_536;

/** Returns the changes without the texts of the files; null texts of new and deleted files stay. */
export function diffsOf(changes: readonly FileChange[]): FileChange[] {
  let left = MAX_DIFF_CHARACTERS;
  return changes.map(({ path, old_text: before, new_text: after, diff, omitted, size }) => {
    left -= diff.length;
    return {
      path,
      ...(before === null ? { old_text: null } : {}),
      ...(after === null ? { new_text: null } : {}),
      ...(left < 0 ? { diff: "", omitted: "large" as const } : { diff, ...(omitted ? { omitted } : {}) }),
      ...(size === undefined ? {} : { size }),
    };
  });
}
