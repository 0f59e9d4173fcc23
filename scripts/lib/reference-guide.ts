/** What a document says of itself besides operations and schemas: its `x-guide`, section by section. */
import { isObject, listAt, objectAt, stringAt, type BundledDocument, type JsonObject } from "./document.ts";
import { anchor, paragraphs, prose, table, type Block, type Section } from "./reference-model.ts";

/** Each entry has a `title`, and any of `text`, `table` (`head`, `rows`) and `code` (`language`, `text`), in this order. */
export function guideSections(document: BundledDocument): readonly Section[] {
  return listAt(document, "x-guide")
    .filter(isObject)
    .map((entry) => {
      const title = stringAt(entry, "title") ?? "";
      const blocks = [...paragraphs(stringAt(entry, "text")), ...tableOf(entry), ...codeOf(entry)];
      return { id: anchor("guide", title), title, nav: title, blocks };
    });
}

function tableOf(entry: JsonObject): readonly Block[] {
  const written = objectAt(entry, "table");
  const rows = listAt(written, "rows").filter(Array.isArray);
  return table(
    listAt(written, "head").map((cell) => String(cell).replaceAll("`", "")),
    rows.map((cells) => cells.map((cell: unknown) => prose(String(cell)))),
  );
}

function codeOf(entry: JsonObject): readonly Block[] {
  const written = objectAt(entry, "code");
  const text = stringAt(written, "text");
  return text === undefined ? [] : [{ kind: "code", language: stringAt(written, "language") ?? "", text }];
}
