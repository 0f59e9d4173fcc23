/** One part for each kind of item of a conversation. */
import type { JSX } from "preact";
import { useContext, useState } from "preact/hooks";
import type {
  AssistantItem,
  NoticeItem,
  SubagentItem,
  Todo,
  ToolItem,
  TranscriptItem,
  UserItem,
} from "../../client/conversation/state.ts";
import { Badge, Button, Copy, Icon, type Tone } from "../ui/controls.tsx";
import { Diff } from "../ui/diff.tsx";
import { duration, plural } from "../ui/format.ts";
import type { IconName } from "../ui/icons.ts";
import { lazy } from "../ui/lazy.tsx";
import { Markdown } from "../ui/markdown.tsx";
import { memo } from "../ui/memo.ts";
import { loadAttachments } from "./load-attachments.ts";
import { MessageContext } from "./message-context.ts";

const MessageFiles = lazy(async () => (await loadAttachments()).MessageFiles);

export const Item = memo(function Item({ item }: { readonly item: TranscriptItem }): JSX.Element {
  switch (item.kind) {
    case "user":
      return <UserMessage item={item} />;
    case "assistant":
      return <Answer item={item} />;
    case "reasoning":
      return <Reasoning text={item.text} isStreaming={item.isStreaming} />;
    case "tool":
      return <ToolCall item={item} />;
    case "subagent":
      return <Subagent item={item} />;
    default:
      return <Notice item={item} />;
  }
});

const ORIGINS: Readonly<Record<string, string>> = {
  steer: "Steered",
  cron: "Scheduled job",
  webhook: "Webhook",
  background: "Background task",
};

function UserMessage({ item }: { readonly item: UserItem }): JSX.Element {
  const { text, origin, attachments = [] } = item;
  const edit = useContext(MessageContext)?.edit;
  return (
    <article class="message message-user">
      <h2 class="sr-only">You</h2>
      {origin === undefined ? null : <p class="message-origin">{ORIGINS[origin] ?? "Another surface"}</p>}
      {text === "" ? null : <p class="message-text">{text}</p>}
      {attachments.length > 0 ? <MessageFiles attachments={attachments} /> : null}
      {edit && origin === undefined ? (
        <footer class="message-actions when-idle">
          <Button look="quiet" icon="edit" onClick={() => edit(item)}>
            Edit
          </Button>
        </footer>
      ) : null}
    </article>
  );
}

function Answer({ item }: { readonly item: AssistantItem }): JSX.Element {
  const { text, status } = item;
  const fork = useContext(MessageContext)?.fork;
  return (
    <article class="message message-agent" aria-busy={status === "streaming"}>
      <h2 class="sr-only">Agent</h2>
      <Markdown text={text} />
      {status === "streaming" ? <span class="caret" aria-hidden="true" /> : null}
      {status === "interrupted" ? <p class="dim">Stopped here.</p> : null}
      {status === "complete" ? (
        <footer class="message-actions">
          <Copy text={text} />
          {fork ? (
            <span class="when-idle">
              <Button look="quiet" icon="fork" onClick={() => fork(item)}>
                Fork here
              </Button>
            </span>
          ) : null}
        </footer>
      ) : null}
    </article>
  );
}

function Reasoning({
  text,
  isStreaming,
}: {
  readonly text: string;
  readonly isStreaming: boolean;
}): JSX.Element {
  return (
    <details class="reasoning">
      <summary>
        <Icon name="right" />
        {isStreaming ? "Thinking…" : "Thought"}
      </summary>
      <p>{text}</p>
    </details>
  );
}

const STATES: Readonly<
  Record<ToolItem["status"], { readonly tone: Tone; readonly icon: IconName; readonly word: string }>
> = {
  writing: { tone: "busy", icon: "clock", word: "preparing" },
  waiting: { tone: "warn", icon: "approvals", word: "waits for you" },
  running: { tone: "busy", icon: "clock", word: "running" },
  done: { tone: "good", icon: "check", word: "done" },
  failed: { tone: "bad", icon: "close", word: "failed" },
  cut: { tone: "dim", icon: "stop", word: "stopped" },
};

/** More of an output is shown on request: a page must not carry megabytes of a build log. */
const SHOWN_OUTPUT = 8_000;

function ToolCall({ item }: { readonly item: ToolItem }): JSX.Element {
  const { name, context, status, durationSeconds } = item;
  const { tone, icon, word } = STATES[status];
  const isOpen = status === "running" || status === "waiting" || status === "failed";
  const took = durationSeconds === undefined ? "" : duration(durationSeconds);
  return (
    <details class={`tool tool-${status}`} open={isOpen}>
      <summary>
        <span class={`tool-state tone-${tone}`}>
          <Icon name={icon} />
        </span>
        <b>{name === "!" ? "shell" : name}</b>
        <code>{context}</code>
        <span class={`tool-word tone-${tone}`}>{status === "done" && took !== "" ? took : word}</span>
      </summary>
      <ToolBody item={item} />
    </details>
  );
}

function ToolBody({ item }: { readonly item: ToolItem }): JSX.Element {
  const { name, context, status, summary, output, progress, error, diff, todos } = item;
  const text = error ?? output ?? progress;
  return (
    <div class="tool-body">
      {context.length > 60 ? (
        <pre class="tool-call" tabIndex={0} aria-label="Call">
          {context}
        </pre>
      ) : null}
      {summary ? <p class="dim">{summary}</p> : null}
      {todos ? <Todos todos={todos} /> : null}
      {diff && error === undefined ? <Diff text={diff} label={`Changes of ${name}`} /> : null}
      {text && (diff === undefined || error !== undefined) ? (
        <Output text={text} label={`Output of ${name}`} isError={error !== undefined} />
      ) : null}
      {status === "done" && !text && !diff && !todos && !summary ? <p class="dim">No output.</p> : null}
    </div>
  );
}

export function Output({
  text,
  label,
  isError = false,
}: {
  readonly text: string;
  readonly label: string;
  readonly isError?: boolean;
}): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const isCut = text.length > SHOWN_OUTPUT && !isWhole;
  return (
    <>
      <pre class={`output ${isError ? "output-error" : ""}`} tabIndex={0} aria-label={label}>
        {isCut ? text.slice(0, SHOWN_OUTPUT) : text}
      </pre>
      {isCut ? (
        <button type="button" class="link-button" onClick={() => setWhole(true)}>
          {`Show all ${text.length.toLocaleString()} characters`}
        </button>
      ) : null}
    </>
  );
}

const TODO_WORDS: Readonly<Record<Todo["status"], string>> = {
  pending: "to do",
  in_progress: "in progress",
  completed: "done",
  cancelled: "cancelled",
};

function Todos({ todos }: { readonly todos: readonly Todo[] }): JSX.Element {
  return (
    <ul class="todos">
      {todos.map(({ text, status }, index) => (
        <li key={index} class={`todo-${status}`}>
          <Icon name={status === "completed" ? "check" : status === "cancelled" ? "close" : "clock"} />
          <span>{text}</span>
          <span class="sr-only">{TODO_WORDS[status]}</span>
        </li>
      ))}
    </ul>
  );
}

function Subagent({ item }: { readonly item: SubagentItem }): JSX.Element {
  const { goal, status, line, toolCount, durationSeconds } = item;
  const isOver = status !== "queued" && status !== "running";
  const tone: Tone = !isOver ? "busy" : status === "completed" ? "good" : "bad";
  return (
    <section class="subagent" aria-label={`Sub-agent: ${goal}`}>
      <p>
        <Icon name="bot" /> <b>{goal}</b> <Badge tone={tone}>{status}</Badge>{" "}
        <span class="dim">
          {plural(toolCount, "call")}
          {durationSeconds === undefined ? "" : `, ${duration(durationSeconds)}`}
        </span>
      </p>
      {line && !isOver ? <p class="dim subagent-line">{line}</p> : null}
    </section>
  );
}

const NOTICE_ICONS = { info: "info", warning: "warning", error: "error" } as const;

function Notice({ item: { level, text } }: { readonly item: NoticeItem }): JSX.Element {
  return (
    <div class={`notice notice-${level}`} role={level === "error" ? "alert" : undefined}>
      <Icon name={NOTICE_ICONS[level]} />
      <p>{text}</p>
    </div>
  );
}
