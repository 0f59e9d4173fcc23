/** Questions of the agent: approvals, choices, passwords and secrets. */
import type { JSX } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import type { QuestionAnswer } from "../../client/conversation/actions.ts";
import type {
  ApprovalChoice,
  ApprovalQuestion,
  ClarifyQuestion,
  Question,
  SecretQuestion,
  SudoQuestion,
} from "../../client/conversation/state.ts";
import { Button, Countdown, Field, Icon } from "../ui/controls.tsx";
import { Diff } from "../ui/diff.tsx";

interface QuestionProps<Q extends Question> {
  readonly question: Q;
  readonly onAnswer: (answer: QuestionAnswer) => void;
  /** The key may not answer. */
  readonly isReadOnly?: boolean;
}

/** Draws one open question. Its answer goes to exactly this question: keep it apart from others by its id as key. */
export function QuestionCard({
  question,
  onAnswer,
  isReadOnly = false,
}: QuestionProps<Question>): JSX.Element {
  if (isReadOnly) return <ReadOnly question={question} />;
  switch (question.kind) {
    case "approval":
      return <Approval question={question} onAnswer={onAnswer} />;
    case "clarify":
      return <Clarify question={question} onAnswer={onAnswer} />;
    default:
      return <Hidden question={question} onAnswer={onAnswer} />;
  }
}

interface CardProps {
  readonly title: string;
  readonly question: Question;
  readonly children: JSX.Element | readonly (JSX.Element | null)[];
}

function Card({ title, question, children }: CardProps): JSX.Element {
  const id = useId();
  return (
    <section class="question" aria-labelledby={id} role="group">
      <header class="question-header">
        <Icon
          name={question.kind === "approval" ? "approvals" : question.kind === "clarify" ? "chat" : "lock"}
        />
        <h2 id={id}>{title}</h2>
        <span class="grow" />
        {question.expiresAtMs === undefined ? null : <Countdown at={question.expiresAtMs / 1_000} />}
      </header>
      {children}
    </section>
  );
}

function ReadOnly({ question }: { readonly question: Question }): JSX.Element {
  const isClarify = question.kind === "clarify";
  const text = isClarify
    ? question.question
    : question.kind === "secret"
      ? question.prompt
      : question.command;
  return (
    <Card title="The agent waits for an answer" question={question}>
      <pre class="question-command" tabIndex={0} aria-label="Question">
        {text}
      </pre>
      <p class="dim">This key may not answer: it lacks the scope approvals.</p>
    </Card>
  );
}

const CHOICE_WORDS: Readonly<Record<ApprovalChoice, string>> = {
  once: "Allow once",
  session: "Allow in this session",
  always: "Always allow",
  deny: "Deny",
};

function Approval({ question, onAnswer }: QuestionProps<ApprovalQuestion>): JSX.Element {
  const { command, description, diff, toolName, choices } = question;
  const [isSure, setSure] = useState(false);
  const answer = (choice: ApprovalChoice) => {
    // A permission for good is asked for twice.
    if (choice === "always" && !isSure) return setSure(true);
    onAnswer({ kind: "approval", choice });
  };
  const title = toolName === undefined ? "The agent asks for approval" : `The agent asks to use ${toolName}`;
  return (
    <Card title={title} question={question}>
      {command ? (
        <pre class="question-command" tabIndex={0} aria-label="Command">
          {command}
        </pre>
      ) : null}
      {description ? <p class="question-text">{description}</p> : null}
      {diff ? <Diff text={diff} label="What would change" /> : null}
      <div class="question-actions">
        {choices.map((choice) => (
          <Button
            key={choice}
            look={choice === "deny" ? "danger" : choice === "once" ? "primary" : "plain"}
            onClick={() => answer(choice)}
          >
            {choice === "always" && isSure ? "Always, I am sure" : CHOICE_WORDS[choice]}
          </Button>
        ))}
      </div>
    </Card>
  );
}

function Clarify({ question, onAnswer }: QuestionProps<ClarifyQuestion>): JSX.Element {
  const { question: text, choices, isMultiSelect, batch } = question;
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [typed, setTyped] = useState("");
  const send = (answer: string) => onAnswer({ kind: "clarify", answer });
  const toggle = (choice: string) =>
    setChosen((all) => (all.includes(choice) ? all.filter((each) => each !== choice) : [...all, choice]));
  const count = batch ? ` (${batch.at + 1} of ${batch.parts.length})` : "";
  return (
    <Card title={`The agent asks${count}`} question={question}>
      <p class="question-text">{text}</p>
      {choices.length > 0 ? (
        <div class="question-actions" role="group" aria-label="Choices">
          {choices.map((choice) => (
            <Button
              key={choice}
              aria-pressed={isMultiSelect ? chosen.includes(choice) : undefined}
              onClick={() => (isMultiSelect ? toggle(choice) : send(choice))}
            >
              {choice}
            </Button>
          ))}
        </div>
      ) : null}
      <form
        class="question-form"
        onSubmit={(event) => {
          event.preventDefault();
          send([...chosen, ...(typed.trim() === "" ? [] : [typed.trim()])].join("\n"));
        }}
      >
        <Field label={choices.length > 0 ? "Another answer" : "Your answer"}>
          {({ id }) => (
            <input
              id={id}
              class="input"
              value={typed}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          )}
        </Field>
        <div class="question-actions">
          <Button type="submit" look="primary" disabled={typed.trim() === "" && chosen.length === 0}>
            Answer
          </Button>
          <Button onClick={() => send("")}>Skip</Button>
        </div>
      </form>
    </Card>
  );
}

/** A password or secret: typed unseen, sent once, and kept nowhere in the page. */
function Hidden({ question, onAnswer }: QuestionProps<SudoQuestion | SecretQuestion>): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  const isSudo = question.kind === "sudo";
  const send = (value: string) =>
    onAnswer(isSudo ? { kind: "sudo", password: value } : { kind: "secret", value });
  const label = isSudo ? "Password" : `Value of ${question.envVar}`;
  return (
    <Card
      title={isSudo ? "The agent asks for your password" : "The agent asks for a secret"}
      question={question}
    >
      {isSudo ? (
        <pre class="question-command" tabIndex={0} aria-label="Command">
          {question.command}
        </pre>
      ) : (
        <p class="question-text">{question.prompt}</p>
      )}
      <form
        class="question-form"
        onSubmit={(event) => {
          event.preventDefault();
          const value = input.current?.value ?? "";
          if (input.current) input.current.value = "";
          send(value);
        }}
      >
        <Field label={label} hint="The model does not see it.">
          {({ id, describedBy }) => (
            <input
              id={id}
              class="input"
              type="password"
              autocomplete="off"
              ref={input}
              aria-describedby={describedBy}
            />
          )}
        </Field>
        <div class="question-actions">
          <Button type="submit" look="primary">
            Send
          </Button>
          <Button look="danger" onClick={() => send("")}>
            Refuse
          </Button>
        </div>
      </form>
    </Card>
  );
}
