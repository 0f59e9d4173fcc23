/** The events of the gateway in its reference: the content of each and when it is sent. */
import { componentReference, componentSchemas, stringAt, type BundledDocument } from "./document.ts";
import { EVENT_UNION, readEvents } from "./emit-host.ts";
import { anchor, link, paragraphs, prose, table, type Line, type Section } from "./reference-model.ts";
import { openSchema } from "./reference-schema.ts";
import { typeLine } from "./reference-type.ts";

/** Every event with its payload; none for a document without events. */
export function eventSection(document: BundledDocument): readonly Section[] {
  const events = readEvents(document);
  if (events.length === 0) return [];
  const about = stringAt(componentSchemas(document)[EVENT_UNION] ?? {}, "description");
  const rows = events.map(({ type, event, summary }): Line[] => [
    [link(type, anchor("event", type))],
    prose(summary ?? ""),
    typeLine(componentReference(event)),
  ]);
  return [
    {
      id: "events",
      title: "Events",
      nav: "Events",
      blocks: [...paragraphs(about), ...table(["Event", "What happened", "Schema"], rows)],
      sections: events.map(({ type, payload, summary }) => ({
        id: anchor("event", type),
        title: type,
        nav: type,
        blocks: [...paragraphs(summary), ...openSchema(document, componentReference(payload))],
      })),
    },
  ];
}
