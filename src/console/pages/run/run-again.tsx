/** Starts a run again, here with a changed prompt or elsewhere as a command. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Run, RunAccepted, SessionMessageList } from "../../../client/http.ts";
import { navigate } from "../../router.ts";
import { useCan } from "../../state/me.ts";
import { request } from "../../state/session.ts";
import { Button, copyText } from "../../ui/controls.tsx";
import { attempt, Dialog, say } from "../../ui/dialog.tsx";
import { Form, SelectInput, TextInput, type Values } from "../../ui/form.tsx";
import { curlOf } from "./timeline.ts";

export function RunAgain({ run }: { readonly run: Run }): JSX.Element | null {
  const canRun = useCan("runs");
  const [prompt, setPrompt] = useState<string>();
  // Compressions and the like have no prompt of a person.
  if (run.input_preview === "") return null;
  const copy = async () => {
    const isCopied = await copyText(curlOf(location.origin, run, await promptOf(run)));
    say(
      isCopied ? "The command is copied." : "This browser allows no copies on plain HTTP.",
      isCopied ? "info" : "error",
    );
  };
  return (
    <>
      <Button icon="copy" aria-label="Copy as curl" onClick={() => attempt(copy)}>
        <span class="only-wide">Copy as curl</span>
      </Button>
      {canRun ? (
        <Button
          icon="refresh"
          aria-label="Run again"
          onClick={() => attempt(async () => setPrompt(await promptOf(run)))}
        >
          <span class="only-wide">Run again</span>
        </Button>
      ) : null}
      {prompt === undefined ? null : (
        <AgainDialog run={run} prompt={prompt} onClose={() => setPrompt(undefined)} />
      )}
    </>
  );
}

const SESSIONS = [
  ["new", "A new session"],
  ["same", "The same session"],
] as const;

interface AgainProps {
  readonly run: Run;
  readonly prompt: string;
  readonly onClose: () => void;
}

function AgainDialog({ run, prompt, onClose }: AgainProps): JSX.Element {
  const start = async ({ input, session, model }: Values) => {
    const body = { input, model, ...(session === "same" ? { session_id: run.session_id } : {}) };
    const { id } = await request<{ url: string; body: object }, RunAccepted>({ url: "/v1/runs", body });
    onClose();
    navigate(`/runs/${encodeURIComponent(id)}`);
  };
  return (
    <Dialog title="Run again" onClose={onClose}>
      <Form
        initial={{ input: prompt, session: "new", model: run.model }}
        action="Start"
        onSubmit={start}
        onCancel={onClose}
      >
        <TextInput name="input" label="Prompt" kind="long" isRequired />
        <TextInput name="model" label="Model" isRequired />
        <SelectInput name="session" label="In" options={SESSIONS} />
      </Form>
    </Dialog>
  );
}

/** The run itself has only the beginning of its prompt. */
async function promptOf({ id, session_id: session, input_preview: preview }: Run): Promise<string> {
  const url = `/v1/sessions/${encodeURIComponent(session)}/messages`;
  const query = { limit: 100 };
  const read = request<{ url: string; query: object }, SessionMessageList>({ url, query });
  // A session that was deleted, or cut short since.
  const { data } = await read.catch(() => ({ data: [] }));
  return data.find((message) => message.run_id === id && message.role === "user")?.text ?? preview;
}
