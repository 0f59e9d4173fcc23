/** Every open question of all sessions in one place, what was answered, and approvals that were given for good. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { AnswerBody, ClarifyQuestion, Grant, Question } from "../../client/http.ts";
import type { QuestionAnswer } from "../../client/conversation/actions.ts";
import { answersOf, nextPart } from "../../client/conversation/reduce-questions.ts";
import type { Question as ShownQuestion } from "../../client/conversation/state.ts";
import { AgentApiError } from "../../client/request.ts";
import { QuestionCard } from "../chat/question.tsx";
import type { PageProps } from "../router.ts";
import { useCan } from "../state/me.ts";
import { canNotify, hasNotices, switchNotices } from "../state/notices.ts";
import { refreshTopic, useList } from "../state/resources.ts";
import { request } from "../state/session.ts";
import { useStore } from "../state/store.ts";
import { Button, CheckBox, Empty, Loading, PageHeader, Problem, Time } from "../ui/controls.tsx";
import { attempt, Confirm, say } from "../ui/dialog.tsx";
import { Tabs } from "../ui/filters.tsx";
import { QuestionBadge, sourceName } from "../ui/run-parts.tsx";
import { ListTable, type Column } from "../ui/table.tsx";

const VIEWS = [
  ["open", "Waiting"],
  ["answered", "Answered"],
  ["saved", "Saved approvals"],
] as const;

export function ApprovalsPage({ query }: PageProps): JSX.Element {
  const view = query.get("view") ?? "open";
  return (
    <>
      <PageHeader title="Approvals" />
      <div class="page-body">
        <Tabs label="View" name="view" options={VIEWS} />
        {view === "saved" ? <Grants /> : view === "answered" ? <Answered /> : <Open />}
        {view === "open" ? <Notices /> : null}
      </div>
    </>
  );
}

/** The browser asks for its permission only when a person switches this on. */
function Notices(): JSX.Element | null {
  const isOn = useStore(hasNotices, (value) => value);
  // Draws the box again when the browser refuses.
  const [, draw] = useState(0);
  const canAnswer = useCan("approvals");
  if (!canNotify || !canAnswer) return null;
  const change = (wanted: boolean) =>
    attempt(() => switchNotices(wanted).finally(() => draw((count) => count + 1)));
  return (
    <CheckBox
      label="Notify me in this browser"
      hint="When the agent waits for an answer while you look at something else. It does not say what is asked."
      isOn={isOn}
      onChange={change}
    />
  );
}

function Open(): JSX.Element {
  const { items, status, problem, reload } = useList<Question>("/v1/questions", { status: "open" }, [
    "question",
  ]);
  const canAnswer = useCan("approvals");
  if (status === "loading") return <Loading />;
  if (status === "failed") return <Problem message={problem} onRetry={reload} />;
  if (items.length === 0) {
    return (
      <Empty icon="approvals" title="Nothing waits for you">
        <p>When the agent asks for approval, or for an answer, in any session, it appears here.</p>
      </Empty>
    );
  }
  // The one that expires first needs the answer first.
  const sorted = items.toSorted((a, b) => (a.expires_at ?? Infinity) - (b.expires_at ?? Infinity));
  return (
    <ul class="inbox">
      {sorted.map((question) => (
        <Waiting key={question.id} question={question} isReadOnly={!canAnswer} />
      ))}
    </ul>
  );
}

interface WaitingProps {
  readonly question: Question;
  readonly isReadOnly: boolean;
}

/** One open question. One with several parts is asked part by part and answered together. */
function Waiting({ question, isReadOnly }: WaitingProps): JSX.Element {
  const [shown, setShown] = useState(() => shownQuestion(question));
  const answer = (given: QuestionAnswer) => {
    const isText = shown.kind === "clarify" && given.kind === "clarify";
    const next = isText ? nextPart(shown, given.answer) : undefined;
    if (next) return setShown(next);
    const answers = isText ? answersOf(shown, given.answer) : undefined;
    attempt(() => send(question, answers ? { answers } : bodyOf(question, given)));
  };
  return (
    <li>
      <QuestionCard key={shown.id} question={shown} isReadOnly={isReadOnly} onAnswer={answer} />
      <p class="inbox-origin">
        <a href={`/chat/${encodeURIComponent(question.session_id)}`}>Open the session</a>
        <span class="dim">{sourceName(question.source ?? "")}</span>
        <span class="dim">
          asked <Time at={question.created_at} />
        </span>
      </p>
    </li>
  );
}

/** Sends an answer to exactly this question. Answered elsewhere first, the page says by whom. */
async function send(question: Question, body: AnswerBody): Promise<void> {
  const url = `/v1/questions/${encodeURIComponent(question.id)}/answer`;
  try {
    await request<{ url: string; body: AnswerBody }, Question>({ url, body });
  } catch (error) {
    if (!(error instanceof AgentApiError) || error.code !== "question_not_pending") throw error;
    const by = error.details?.["answered_by"];
    say(typeof by === "string" ? `This was answered by ${by} before.` : "This question is no longer open.");
  } finally {
    refreshTopic("question");
  }
}

function bodyOf({ questions }: Question, answer: QuestionAnswer): AnswerBody {
  switch (answer.kind) {
    case "approval":
      return { choice: answer.choice };
    case "clarify": {
      const [first] = questions ?? [];
      return answer.answer === "" || !first ? { decline: true } : { answers: { [first.id]: answer.answer } };
    }
    case "sudo":
      return answer.password === "" ? { decline: true } : { password: answer.password };
    default:
      return answer.value === "" ? { decline: true } : { value: answer.value };
  }
}

/** Returns a question of the API as the chat shows it. */
function shownQuestion({
  id,
  kind,
  approval,
  questions,
  prompt,
  expires_at: expires,
}: Question): ShownQuestion {
  const base = { id, ...(expires === null ? {} : { expiresAtMs: expires * 1_000 }) };
  switch (kind) {
    case "approval":
      return {
        ...base,
        kind,
        command: approval?.command ?? approval?.title ?? "",
        description: approval?.description ?? "",
        choices: approval?.choices ?? ["deny"],
        ...(approval ? { toolName: approval.tool } : {}),
      };
    case "clarify": {
      const parts = (questions ?? []).map(partOf);
      const { id: _, ...first } = parts[0] ?? {
        id,
        question: prompt ?? "",
        choices: [],
        isMultiSelect: false,
      };
      const batch = { requestId: id, parts, at: 0, given: {} };
      return { ...base, kind, ...first, ...(parts.length > 1 ? { batch } : {}) };
    }
    case "sudo":
      return { ...base, kind, command: prompt ?? "" };
    default:
      return { ...base, kind, prompt: prompt ?? "", envVar: "the secret" };
  }
}

function partOf({ id, question, choices, multi_select: isMultiSelect }: ClarifyQuestion) {
  return { id, question, choices: choices ?? [], isMultiSelect };
}

const ANSWERED: readonly Column<Question>[] = [
  { name: "Question", isWide: true, cell: (question) => textOf(question) },
  { name: "Result", cell: (question) => <QuestionBadge status={question.status} /> },
  { name: "Answer", cell: (question) => answerWords(question) },
  { name: "By", cell: (question) => question.answered_by ?? "–" },
  {
    name: "When",
    align: "end",
    cell: (question) => <Time at={question.answered_at ?? question.created_at} />,
  },
];

function answerWords({ answer }: Question): string {
  return answer?.choice ?? Object.values(answer?.answers ?? {}).join(", ") ?? "–";
}

function textOf({ approval, questions, prompt }: Question): string {
  return approval?.command ?? approval?.title ?? questions?.[0]?.question ?? prompt ?? "";
}

function Answered(): JSX.Element {
  const list = useList<Question>("/v1/questions", { status: "answered,expired,cancelled" }, ["question"]);
  return (
    <ListTable
      label="Answered questions"
      list={list}
      columns={ANSWERED}
      href={(question) => `/chat/${encodeURIComponent(question.session_id)}`}
      empty={<Empty icon="approvals" title="Nothing was asked yet" />}
    />
  );
}

const GRANTS: readonly Column<Grant>[] = [
  { name: "Allowed", isWide: true, cell: (grant) => <code>{grant.title}</code> },
  { name: "Tool", cell: (grant) => grant.tool },
  { name: "Since", align: "end", cell: (grant) => <Time at={grant.created_at} /> },
];

function Grants(): JSX.Element {
  const list = useList<Grant>("/v1/grants", {}, ["grant"]);
  const canChange = useCan("approvals");
  return (
    <ListTable
      label="Saved approvals"
      list={list}
      columns={GRANTS}
      {...(canChange ? { actions: (grant: Grant) => <Revoke grant={grant} /> } : {})}
      empty={
        <Empty icon="approvals" title="No saved approval">
          <p>"Always allow" saves an approval. It stays until you revoke it here.</p>
        </Empty>
      }
    />
  );
}

function Revoke({ grant }: { readonly grant: Grant }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button look="danger" onClick={() => setOpen(true)}>
        Revoke
      </Button>
      {isOpen ? (
        <Confirm
          title="Revoke this approval?"
          action="Revoke"
          onClose={() => setOpen(false)}
          onConfirm={async () => {
            await request<{ url: string }, unknown>({
              url: `/v1/grants/${encodeURIComponent(grant.id)}`,
              method: "DELETE",
            });
            refreshTopic("grant");
          }}
        >
          <p>
            The agent asks again before <code>{grant.title}</code>.
          </p>
        </Confirm>
      ) : null}
    </>
  );
}
