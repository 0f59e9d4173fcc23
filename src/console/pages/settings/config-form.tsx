/** Settings of the configuration as fields. Only what the user changed is written, against the version that was read. */
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { AgentApiError } from "../../../client/request.ts";
import { useCan } from "../../state/me.ts";
import { createStore, useStore } from "../../state/store.ts";
import { Button, Icon, Loading, Problem } from "../../ui/controls.tsx";
import { plural } from "../../ui/format.ts";
import { useConfiguration, type Configuration } from "./config.ts";
import { SaveDialog } from "./save-dialog.tsx";
import { parsed, textOf, valueAt, type Edit, type Setting } from "./schema.ts";
import { SettingField } from "./setting-field.tsx";

interface FormProps {
  readonly description: string;
  /** Every setting there is: edits of other sections are saved together with those of this one. */
  readonly all: readonly Setting[];
  readonly settings: readonly Setting[];
}

/** Key of a setting and the text of its input; null: back to the default. */
export type Draft = ReadonlyMap<string, string | null>;

/** What is typed and not saved stays while other pages are shown. */
const drafts = createStore<Draft>(new Map());

export function ConfigForm({ description, all, settings }: FormProps): JSX.Element {
  const draft = useStore(drafts, (value) => value);
  const setDraft = (next: Draft) => drafts.update(() => next);
  const [problems, setProblems] = useState<ReadonlyMap<string, string>>(new Map());
  const [isSaving, setSaving] = useState(false);
  const { config, problem, isOutdated, reload } = useConfiguration(draft.size > 0);
  const canChange = useCan("admin");
  const edits = useMemo(() => (config ? editsOf(all, draft, config) : []), [all, draft, config]);
  if (!config) return problem ? <Problem message={problem} onRetry={() => void reload()} /> : <Loading />;
  const set = (key: string, text: string | null | undefined) => {
    setProblems(new Map());
    setDraft(withText(draft, key, text));
  };
  const review = () => {
    const found = mistakesOf(all, draft);
    setProblems(found);
    setSaving(found.size === 0);
  };
  const saved = async () => {
    setDraft(new Map());
    setSaving(false);
    await reload();
  };
  return (
    <>
      <p class="dim">{description}</p>
      <Notices config={config} isOutdated={isOutdated} />
      <div class="settings-fields">
        {settings.map((setting) => (
          <SettingField
            key={setting.key}
            setting={setting}
            config={config}
            text={draft.get(setting.key)}
            problem={problems.get(setting.key)}
            canChange={canChange}
            onText={(text) => set(setting.key, text)}
            onSecret={() => void reload()}
          />
        ))}
      </div>
      {edits.length > 0 ? (
        <footer class="settings-save">
          <Button onClick={() => setDraft(new Map())}>Discard</Button>
          <Button look="primary" onClick={review}>
            Save {plural(edits.length, "change")}
          </Button>
        </footer>
      ) : null}
      {isSaving ? (
        <SaveDialog
          config={config}
          edits={edits}
          onSaved={saved}
          onClose={() => setSaving(false)}
          onIssues={(error) => setProblems(issuesOf(error))}
        />
      ) : null}
    </>
  );
}

function withText(before: Draft, key: string, text: string | null | undefined): Draft {
  const next = new Map(before);
  if (text === undefined) next.delete(key);
  else next.set(key, text);
  return next;
}

/** The draft as values; equal values are left out. */
function editsOf(all: readonly Setting[], draft: Draft, { view }: Configuration): readonly Edit[] {
  return all.flatMap((setting): readonly Edit[] => {
    const text = draft.get(setting.key);
    if (text === undefined) return [];
    if (text === null)
      return valueAt(view.file, setting.path) === undefined ? [] : [{ setting, value: undefined }];
    const before = textOf(setting, valueAt(view.effective, setting.path));
    if (text === before) return [];
    try {
      return [{ setting, value: parsed(setting, text) }];
    } catch {
      // Said at the field, once the user wants to save it.
      return [{ setting, value: undefined }];
    }
  });
}

function mistakesOf(all: readonly Setting[], draft: Draft): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const setting of all) {
    const text = draft.get(setting.key);
    if (typeof text !== "string") continue;
    try {
      const value = parsed(setting, text);
      const isWrong =
        typeof value === "number" ? Number.isNaN(value) : Array.isArray(value) && value.some(Number.isNaN);
      if (isWrong) found.set(setting.key, "This is not a number.");
    } catch (error) {
      found.set(setting.key, `This is not JSON: ${error instanceof Error ? error.message : ""}`);
    }
  }
  return found;
}

/** What the server says about single keys. */
function issuesOf(error: AgentApiError): ReadonlyMap<string, string> {
  const issues = (error.details?.["issues"] ?? []) as readonly {
    readonly path: string;
    readonly message: string;
  }[];
  if (issues.length > 0) return new Map(issues.map(({ path, message }) => [path, `It ${message}.`]));
  return new Map(error.param === null ? [] : [[error.param, error.message]]);
}

function Notices({
  config: { view },
  isOutdated,
}: {
  readonly config: Configuration;
  readonly isOutdated: boolean;
}): JSX.Element {
  return (
    <>
      {isOutdated ? (
        <p class="settings-notice" role="status">
          <Icon name="info" />
          Someone else has changed the configuration. You see the difference when you save, or discard your
          changes to see it now.
        </p>
      ) : null}
      {view.pending_restart.length > 0 ? (
        <p class="settings-notice" role="status">
          <Icon name="refresh" />
          <span>
            In the file, and in use after a restart:{" "}
            {view.pending_restart.map((key) => (
              <code key={key}>{key} </code>
            ))}
          </span>
        </p>
      ) : null}
      {view.issues.map(({ path, message, severity }) => (
        <p key={path + message} class="settings-notice" role={severity === "error" ? "alert" : "status"}>
          <Icon name="warning" />
          <span>
            <code>{path}</code> {message}
          </span>
        </p>
      ))}
    </>
  );
}
