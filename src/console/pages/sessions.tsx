/** All sessions: find, open, rename, fork, export and delete them. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Session } from "../../client/http.ts";
import { navigate, type PageProps } from "../router.ts";
import { useCan } from "../state/me.ts";
import { refreshTopic, useList } from "../state/resources.ts";
import { request, signedFetch } from "../state/session.ts";
import { Badge, Button, Empty, IconButton, PageHeader, Time } from "../ui/controls.tsx";
import { attempt, Confirm, Dialog } from "../ui/dialog.tsx";
import { ChoiceFilter, Filters, SearchFilter } from "../ui/filters.tsx";
import { compactCount } from "../ui/format.ts";
import { Form, TextInput } from "../ui/form.tsx";
import { SOURCE_OPTIONS, sourceName } from "../ui/run-parts.tsx";
import { ListTable, type Column } from "../ui/table.tsx";

const STATUSES = [
  ["running", "running"],
  ["waiting", "waits for an answer"],
  ["idle", "idle"],
] as const;

const COLUMNS: readonly Column<Session>[] = [
  { name: "Title", isWide: true, cell: (session) => titleOf(session) },
  { name: "Status", cell: (session) => <StatusBadge status={session.status} /> },
  { name: "Source", cell: ({ source }) => sourceName(source) },
  { name: "Messages", align: "end", cell: (session) => compactCount(session.message_count) },
  { name: "Last used", align: "end", cell: (session) => <Time at={session.updated_at} /> },
];

export function SessionsPage({ query }: PageProps): JSX.Element {
  const filters = {
    q: query.get("q") ?? "",
    source: query.get("source") ?? "",
    status: query.get("status") ?? "",
  };
  const sessions = useList<Session>("/v1/sessions", filters, ["session", "run"]);
  const canChange = useCan("sessions");
  return (
    <>
      <PageHeader title="Sessions">
        <Button icon="plus" look="primary" onClick={() => navigate("/chat/new")}>
          New conversation
        </Button>
      </PageHeader>
      <div class="page-body">
        <Filters>
          <SearchFilter name="q" label="Search titles and ids" />
          <ChoiceFilter name="source" label="Source" options={SOURCE_OPTIONS} />
          <ChoiceFilter name="status" label="Status" options={STATUSES} />
        </Filters>
        <ListTable
          label="Sessions"
          list={sessions}
          columns={COLUMNS}
          href={(session) => `/chat/${encodeURIComponent(session.id)}`}
          isFiltered={Object.values(filters).some((value) => value !== "")}
          {...(canChange ? { actions: (session: Session) => <Actions session={session} /> } : {})}
          empty={
            <Empty icon="sessions" title="No session yet">
              <p>Each conversation is a session, whichever way it was started.</p>
            </Empty>
          }
        />
      </div>
    </>
  );
}

export function titleOf({ title, preview, id }: Session): string {
  return title || preview || id;
}

function StatusBadge({ status }: { readonly status: Session["status"] }): JSX.Element {
  if (status === "running") return <Badge tone="busy">running</Badge>;
  if (status === "waiting") return <Badge tone="warn">waits for an answer</Badge>;
  return <Badge tone="dim">idle</Badge>;
}

type Opened = "rename" | "delete" | undefined;

function Actions({ session }: { readonly session: Session }): JSX.Element {
  const [opened, setOpened] = useState<Opened>();
  const close = () => setOpened(undefined);
  const address = `/v1/sessions/${encodeURIComponent(session.id)}`;
  return (
    <>
      <IconButton icon="edit" label={`Rename ${titleOf(session)}`} onClick={() => setOpened("rename")} />
      <IconButton
        icon="fork"
        label={`Fork ${titleOf(session)}`}
        onClick={() => attempt(() => fork(address))}
      />
      <IconButton
        icon="download"
        label={`Export ${titleOf(session)}`}
        onClick={() => attempt(() => exportSession(address, session.id))}
      />
      <IconButton icon="trash" label={`Delete ${titleOf(session)}`} onClick={() => setOpened("delete")} />
      {opened === "rename" ? <Rename session={session} address={address} onClose={close} /> : null}
      {opened === "delete" ? (
        <Confirm
          title="Delete this session?"
          action="Delete"
          onClose={close}
          onConfirm={async () => {
            await request<{ url: string; query: object }, unknown>({
              url: address,
              method: "DELETE",
              query: { force: true },
            });
            refreshTopic("session");
          }}
        >
          <p>
            <b>{titleOf(session)}</b> and its {session.message_count} messages are removed for good. A turn
            that runs is stopped first.
          </p>
        </Confirm>
      ) : null}
    </>
  );
}

interface RenameProps {
  readonly session: Session;
  readonly address: string;
  readonly onClose: () => void;
}

function Rename({ session, address, onClose }: RenameProps): JSX.Element {
  return (
    <Dialog title="Rename the session" onClose={onClose}>
      <Form
        initial={{ title: session.title ?? "" }}
        action="Rename"
        onCancel={onClose}
        onSubmit={async ({ title }) => {
          await request<{ url: string; body: object }, unknown>({
            url: address,
            method: "PATCH",
            body: { title },
          });
          refreshTopic("session");
          onClose();
        }}
      >
        <TextInput name="title" label="Title" isRequired />
      </Form>
    </Dialog>
  );
}

async function fork(address: string): Promise<void> {
  const made = await request<{ url: string; body: object }, Session>({ url: `${address}/fork`, body: {} });
  navigate(`/chat/${encodeURIComponent(made.id)}`);
}

async function exportSession(address: string, id: string): Promise<void> {
  const response = await signedFetch(`${address}/export?format=markdown`);
  if (!response.ok) throw new Error(`The export failed: the server answered ${response.status}.`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = `${id}.md`;
  link.click();
  URL.revokeObjectURL(link.href);
}
