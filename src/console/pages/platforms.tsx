/** Where messages can be sent: what is set up, what is missing, and a test message. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Platform, PlatformList, PlatformTest, TestPlatformBody } from "../../client/http.ts";
import { useCan } from "../state/me.ts";
import { useItem } from "../state/resources.ts";
import { request } from "../state/session.ts";
import { Badge, Button, Loading, PageHeader, Problem, type Tone } from "../ui/controls.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Form, TextInput, type Values } from "../ui/form.tsx";
import { duration } from "../ui/format.ts";
import { Table, type Column } from "../ui/table.tsx";

type Row = Platform & { readonly id: string };

const STATUS: Readonly<Record<Platform["status"], readonly [Tone, string]>> = {
  ready: ["good", "ready"],
  incomplete: ["warn", "settings are missing"],
  unset: ["dim", "not set up"],
  off: ["dim", "switched off"],
};

export function PlatformsPage(): JSX.Element {
  const { item, status, problem, reload } = useItem<PlatformList>("/v1/platforms?limit=100", [
    "message",
    "config",
  ]);
  const rows = (item?.data ?? []).map((platform) => ({ ...platform, id: platform.name }));
  const used = rows.filter((row) => row.status === "ready" || row.status === "incomplete");
  const others = rows.filter((row) => !used.includes(row));
  return (
    <>
      <PageHeader title="Platforms" />
      <div class="page-body">
        {status === "loading" ? <Loading /> : null}
        {problem ? <Problem message={problem} onRetry={reload} /> : null}
        {item ? (
          <>
            <h2 class="section-title">Set up</h2>
            <Platforms label="Platforms that are set up" rows={used} columns={USED} />
            <h2 class="section-title">Available</h2>
            <Platforms label="Other platforms" rows={others} columns={OTHERS} />
          </>
        ) : null}
      </div>
    </>
  );
}

const NAME: Column<Row> = { name: "Platform", cell: ({ title }) => title };
const STATE: Column<Row> = {
  name: "Status",
  cell: ({ status }) => <Badge tone={STATUS[status][0]}>{STATUS[status][1]}</Badge>,
};

const NEEDS: Column<Row> = { name: "Needs", isWide: true, cell: (row) => <Missing row={row} /> };

const USED: readonly Column<Row>[] = [
  NAME,
  STATE,
  NEEDS,
  { name: "Home channel", cell: ({ home }) => home ?? <span class="dim">none</span> },
  { name: "Messages", cell: (row) => <Messages row={row} /> },
];

const OTHERS: readonly Column<Row>[] = [NAME, STATE, NEEDS];

interface PlatformsProps {
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
}

function Platforms({ label, rows, columns }: PlatformsProps): JSX.Element {
  const canTest = useCan("messages");
  const canSet = useCan("admin");
  if (rows.length === 0) return <p class="dim">None.</p>;
  const actions = (row: Row) => (
    <>
      {canTest && row.status === "ready" ? <Test platform={row} /> : null}
      {canSet ? (
        <a class="button button-quiet" href={`/settings/platforms?q=${encodeURIComponent(row.name)}`}>
          Settings<span class="sr-only"> of {row.title}</span>
        </a>
      ) : null}
    </>
  );
  return <Table label={label} rows={rows} columns={columns} {...(canTest || canSet ? { actions } : {})} />;
}

function Missing({ row }: { readonly row: Row }): JSX.Element {
  if (row.missing.length === 0) return <span class="dim">nothing</span>;
  return (
    <span class="platform-missing">
      {row.missing.map((setting) => (
        <code key={setting}>{setting}</code>
      ))}
    </span>
  );
}

/** The messages that wait or failed, as links into the outbox. */
function Messages({ row }: { readonly row: Row }): JSX.Element {
  const { due, sending, dead, unknown } = row.outbox;
  const counts = [
    ["due", due, "waiting"],
    ["sending", sending, "sending"],
    ["dead", dead, "failed"],
    ["unknown", unknown, "uncertain"],
  ] as const;
  const shown = counts.filter(([, count]) => count > 0);
  if (shown.length === 0) return <span class="dim">none wait</span>;
  return (
    <span class="platform-missing">
      {shown.map(([state, count, word]) => (
        <a key={state} href={`/outbox?state=${state}&platform=${encodeURIComponent(row.name)}`}>
          {count} {word}
        </a>
      ))}
    </span>
  );
}

function Test({ platform }: { readonly platform: Row }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button onClick={() => setOpen(true)}>
        Test<span class="sr-only"> {platform.title}</span>
      </Button>
      {isOpen ? <TestDialog platform={platform} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function TestDialog({
  platform,
  onClose,
}: {
  readonly platform: Row;
  readonly onClose: () => void;
}): JSX.Element {
  const [result, setResult] = useState<PlatformTest>();
  const send = async ({ chat, text }: Values) => {
    setResult(undefined);
    const body: TestPlatformBody = {
      ...(chat ? { chat_id: String(chat) } : {}),
      ...(text ? { text: String(text) } : {}),
    };
    const url = "/v1/platforms/{platform}/test";
    setResult(
      await request<{ url: string; path: object; body: TestPlatformBody }, PlatformTest>({
        url,
        path: { platform: platform.name },
        body,
      }),
    );
  };
  const homeHint =
    platform.home === null
      ? "This platform has no home channel."
      : `Empty: the home channel ${platform.home}.`;
  return (
    <Dialog title={`Send a test message with ${platform.title}`} onClose={onClose}>
      <Form initial={{ chat: "", text: "" }} action="Send" onSubmit={send} onCancel={onClose}>
        <TextInput name="chat" label="Chat" hint={homeHint} />
        <TextInput name="text" label="Text" hint="Markdown. Empty: a greeting." kind="long" />
      </Form>
      {result ? <TestResult result={result} /> : null}
    </Dialog>
  );
}

const OUTCOMES: Readonly<Record<PlatformTest["outcome"], readonly [Tone, string]>> = {
  delivered: ["good", "delivered"],
  retry: ["warn", "refused for now"],
  permanent: ["bad", "refused"],
  unknown: ["warn", "may have arrived"],
  busy: ["warn", "not sent"],
  stopped: ["dim", "stopped"],
  lost: ["bad", "lost"],
};

function TestResult({ result }: { readonly result: PlatformTest }): JSX.Element {
  const [tone, word] = OUTCOMES[result.outcome];
  return (
    <div class="platform-result" role="status">
      <p>
        <Badge tone={tone}>{word}</Badge> {result.address}{" "}
        <span class="dim">after {duration(result.took_ms / 1_000)}</span>
      </p>
      {result.error ? <p>{result.error}</p> : null}
    </div>
  );
}
