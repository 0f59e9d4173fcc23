/** What would be written, as a diff, before it is written; and what someone else has written meanwhile. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { AgentApiError } from "../../../client/request.ts";
import { messageOf } from "../../state/session.ts";
import { Button } from "../../ui/controls.tsx";
import { Dialog, say } from "../../ui/dialog.tsx";
import { Diff } from "../../ui/diff.tsx";
import { plural } from "../../ui/format.ts";
import { changeConfiguration, readConfiguration, type Configuration } from "./config.ts";
import { changedKeys, patchOf, valueAt, type Edit, type Json } from "./schema.ts";

interface SaveProps {
  /** What the user has edited. */
  readonly config: Configuration;
  readonly edits: readonly Edit[];
  readonly onSaved: () => Promise<void>;
  readonly onClose: () => void;
  readonly onIssues: (error: AgentApiError) => void;
}

export function SaveDialog({ config, edits, onSaved, onClose, onIssues }: SaveProps): JSX.Element {
  const [theirs, setTheirs] = useState<Configuration>();
  const [state, setState] = useState({ isBusy: false, problem: "" });
  const base = theirs ?? config;
  const save = async () => {
    setState({ isBusy: true, problem: "" });
    try {
      const { restart_required: waiting } = await changeConfiguration(
        patchOf(edits, base.view.file),
        base.version,
      );
      say(
        waiting.length === 0
          ? "Saved, and in use."
          : `Saved. ${plural(waiting.length, "change")} will be in use after a restart.`,
      );
      await onSaved();
    } catch (error) {
      const problem = await failed(error);
      setState({ isBusy: false, problem });
    }
  };
  const failed = async (error: unknown): Promise<string> => {
    if (!(error instanceof AgentApiError)) return messageOf(error);
    if (error.status === 412) {
      setTheirs(await readConfiguration());
      return "";
    }
    onIssues(error);
    return error.message;
  };
  return (
    <Dialog
      title={theirs ? "The configuration was changed meanwhile" : "Save these changes?"}
      size="wide"
      onClose={onClose}
    >
      {theirs ? <Conflict config={config} theirs={theirs} edits={edits} /> : null}
      <div class="dialog-content">
        {theirs ? <h3>Yours</h3> : null}
        <Diff label="Your changes" text={diffOf(edits, base)} />
        <Effects edits={edits} />
      </div>
      {state.problem ? (
        <p class="problem-line" role="alert">
          {state.problem}
        </p>
      ) : null}
      <footer class="dialog-actions">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" isBusy={state.isBusy} onClick={() => void save()}>
          {theirs ? "Save mine on top" : "Save"}
        </Button>
      </footer>
    </Dialog>
  );
}

interface ConflictProps {
  readonly config: Configuration;
  readonly theirs: Configuration;
  readonly edits: readonly Edit[];
}

function Conflict({ config, theirs, edits }: ConflictProps): JSX.Element {
  const changed = changedKeys(config.view.file as Json, theirs.view.file as Json);
  const lines = changed.flatMap(({ key, before, after }) => linesOf(key, before, after));
  const both = edits.filter(({ setting }) => changed.some(({ key }) => key === setting.key));
  return (
    <div class="dialog-content">
      <p>
        Nothing was saved. Someone else has changed the file since you opened it.{" "}
        {both.length === 0
          ? "None of it is what you changed: both can stay."
          : `You both changed ${both.map(({ setting }) => setting.key).join(", ")}: saving replaces their value.`}
      </p>
      <h3>Theirs</h3>
      <Diff label="Changes by someone else" text={lines.join("\n")} />
    </div>
  );
}

function diffOf(edits: readonly Edit[], { view }: Configuration): string {
  return edits
    .flatMap(({ setting, value }) => {
      const written = valueAt(view.file, setting.path);
      return linesOf(setting.key, written ?? valueAt(view.effective, setting.path), value ?? setting.default);
    })
    .join("\n");
}

function linesOf(key: string, before: Json | undefined, after: Json | undefined): readonly string[] {
  const line = (mark: string, value: Json | undefined) =>
    value === undefined
      ? []
      : [`${mark} ${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`];
  const removed = after === undefined ? [`+ ${key}: (default)`] : [];
  return [...line("-", before), ...line("+", after), ...removed];
}

const EFFECTS = {
  live: "in use at once",
  reload: "in use when the MCP servers are reloaded",
  restart: "needs a restart",
};

function Effects({ edits }: { readonly edits: readonly Edit[] }): JSX.Element {
  return (
    <ul class="settings-effects">
      {edits.map(({ setting, value }) => (
        <li key={setting.key}>
          <code>{setting.key}</code> {EFFECTS[setting.applies]}
          {value === undefined ? "; back to the default" : ""}
        </li>
      ))}
    </ul>
  );
}
