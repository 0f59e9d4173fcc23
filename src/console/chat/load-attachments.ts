/** Loads what shows files: few conversations have any. */
export async function loadAttachments() {
  const [code] = await Promise.all([import("./attachments.tsx"), import("../styles/attachments.css")]);
  return code;
}
