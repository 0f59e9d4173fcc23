/** The browsers that are signed in with this key, and how to sign them out. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ConsoleSessionEntry } from "../../../client/http.ts";
import { me, signOut } from "../../state/me.ts";
import { request } from "../../state/session.ts";
import { useList } from "../../state/resources.ts";
import { useStore } from "../../state/store.ts";
import { Badge, Button, Empty, Time } from "../../ui/controls.tsx";
import { attempt, Confirm } from "../../ui/dialog.tsx";
import { ListTable, type Column } from "../../ui/table.tsx";

const URL = "/api/console/sessions";

const COLUMNS: readonly Column<ConsoleSessionEntry>[] = [
  {
    name: "Browser",
    isWide: true,
    cell: ({ browser, is_current: isCurrent }) => (
      <>
        {browserName(browser)} {isCurrent ? <Badge tone="busy">this one</Badge> : null}
      </>
    ),
  },
  { name: "Address", cell: ({ address }) => address || "–" },
  { name: "Signed in", align: "end", cell: ({ created_at: at }) => <Time at={at} /> },
  { name: "Last used", align: "end", cell: ({ last_used_at: at }) => <Time at={at} /> },
  { name: "Ends", align: "end", cell: ({ expires_at: at }) => <Time at={at} /> },
];

export function Browsers(): JSX.Element {
  const list = useList<ConsoleSessionEntry>(URL, {}, ["key"]);
  const key = useStore(me, (session) => session?.key);
  const [isOpen, setOpen] = useState(false);
  const end = async (query: object) => {
    await request<{ url: string; query: object }, unknown>({ url: URL, method: "DELETE", query });
    list.reload();
  };
  return (
    <>
      <p class="dim">
        Signed in with the key <code>{key ?? ""}</code>. A session ends 12 hours after its last request, and
        with its key.
      </p>
      <ListTable
        label="Signed-in browsers"
        list={list}
        columns={COLUMNS}
        actions={(session) => (
          <Button
            onClick={() => attempt(() => (session.is_current ? signOut() : end({ session_id: session.id })))}
          >
            Sign out<span class="sr-only"> {browserName(session.browser)}</span>
          </Button>
        )}
        empty={<Empty icon="lock" title="No browser is signed in" />}
      />
      {list.items.length > 0 ? (
        <p class="settings-actions">
          <Button
            onClick={() => attempt(() => end({ keep_current: true }), "All other browsers are signed out.")}
          >
            Sign out all others
          </Button>
          <Button look="danger" onClick={() => setOpen(true)}>
            Sign out everywhere
          </Button>
        </p>
      ) : null}
      {isOpen ? (
        <Confirm
          title="Sign out everywhere?"
          action="Sign out everywhere"
          onClose={() => setOpen(false)}
          onConfirm={() => signOut({ everywhere: true })}
        >
          <p>Every browser with this key, also this one, has to sign in again. The key itself stays.</p>
        </Confirm>
      ) : null}
    </>
  );
}

const ENGINES = [
  ["Edg/", "Edge"],
  ["OPR/", "Opera"],
  ["Firefox/", "Firefox"],
  ["Chrome/", "Chrome"],
  ["Safari/", "Safari"],
] as const;
const SYSTEMS = ["Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux"] as const;

/** Returns `Chrome, Linux` for what a browser calls itself. */
function browserName(agent: string): string {
  const engine = ENGINES.find(([mark]) => agent.includes(mark))?.[1];
  const system = SYSTEMS.find((name) => agent.includes(name));
  return [engine, system].filter(Boolean).join(", ") || agent || "unknown";
}
