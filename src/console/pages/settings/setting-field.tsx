/** One setting: its input, where its value comes from, and when a change takes effect. Secrets go in and never come out. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { PutVariableBody } from "../../../client/http.ts";
import { request } from "../../state/session.ts";
import { Badge, Button, Field } from "../../ui/controls.tsx";
import { Dialog, say } from "../../ui/dialog.tsx";
import { Form, TextInput, type Values } from "../../ui/form.tsx";
import { changeConfiguration, type Configuration } from "./config.ts";
import { patchOf, textOf, valueAt, type Setting } from "./schema.ts";

interface FieldProps {
  readonly setting: Setting;
  readonly config: Configuration;
  /** What the user typed; null: back to the default; undefined: unchanged. */
  readonly text: string | null | undefined;
  readonly problem: string | undefined;
  readonly canChange: boolean;
  readonly onText: (text: string | null | undefined) => void;
  /** A secret was replaced. */
  readonly onSecret: () => void;
}

export function SettingField(props: FieldProps): JSX.Element {
  const { setting, config, text, problem, canChange, onText } = props;
  const inFile = valueAt(config.view.file, setting.path);
  const effective = textOf(setting, valueAt(config.view.effective, setting.path));
  const shown = text === null ? textOf(setting, setting.default) : (text ?? effective);
  const isReset = text === null;
  return (
    <div class={`setting ${text === undefined ? "" : "setting-changed"}`}>
      <Field label={setting.key} hint={wordsOf(setting.description)} error={problem}>
        {(ids) =>
          setting.kind === "secret" ? (
            <SecretState {...props} ids={ids} />
          ) : (
            <SettingInput ids={ids} setting={setting} text={shown} isLocked={!canChange} onText={onText} />
          )
        }
      </Field>
      <p class="setting-notes">
        <Origin setting={setting} inFile={inFile !== undefined} effective={effective} isReset={isReset} />
        {setting.applies === "restart" ? <span>needs a restart</span> : null}
        {setting.applies === "reload" ? <span>needs a reload of the MCP servers</span> : null}
        {canChange && inFile !== undefined && !isReset && setting.kind !== "secret" ? (
          <button type="button" class="link-button" onClick={() => onText(null)}>
            Use the default<span class="sr-only"> of {setting.key}</span>
          </button>
        ) : null}
        {text !== undefined ? (
          <button type="button" class="link-button" onClick={() => onText(undefined)}>
            Undo<span class="sr-only"> the change of {setting.key}</span>
          </button>
        ) : null}
      </p>
    </div>
  );
}

/** Descriptions of the schema put code between backticks. */
function wordsOf(description: string): ComponentChildren {
  return description
    .split("`")
    .map((part, index) => (index % 2 === 0 ? part : <code key={index}>{part}</code>));
}

interface OriginProps {
  readonly setting: Setting;
  readonly inFile: boolean;
  readonly effective: string;
  readonly isReset: boolean;
}

function Origin({ setting, inFile, effective, isReset }: OriginProps): JSX.Element | null {
  if (setting.kind === "secret") return null;
  if (isReset) return <span>the default, once saved</span>;
  if (inFile) return <span>from the file</span>;
  const isDefault = effective === textOf(setting, setting.default);
  if (!isDefault && setting.variable) return <span>from the variable {setting.variable}</span>;
  return <span>{isDefault ? "the default" : "chosen by agentd"}</span>;
}

interface Ids {
  readonly id: string;
  readonly describedBy: string | undefined;
}

interface InputProps {
  readonly ids: Ids;
  readonly setting: Setting;
  readonly text: string;
  readonly isLocked: boolean;
  readonly onText: (text: string) => void;
}

function SettingInput({ ids, setting, text, isLocked, onText }: InputProps): JSX.Element {
  const common = { id: ids.id, class: "input", disabled: isLocked, "aria-describedby": ids.describedBy };
  const options = setting.kind === "switch" ? ["true", "false"] : setting.choices;
  switch (setting.kind) {
    case "switch":
    case "choice":
      return (
        <select {...common} value={text} onChange={(event) => onText(event.currentTarget.value)}>
          {options.includes(text) ? null : <option value={text}>{text === "" ? "not set" : text}</option>}
          {options.map((each) => (
            <option key={each} value={each}>
              {each === "true" ? "yes" : each === "false" ? "no" : each}
            </option>
          ))}
        </select>
      );
    case "list":
    case "json": {
      const rows = Math.min(12, Math.max(2, text.split("\n").length));
      return (
        <textarea
          {...common}
          class="input input-code"
          rows={rows}
          spellcheck={false}
          placeholder={setting.kind === "list" ? "One on each line" : "JSON"}
          value={text}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      );
    }
    default: {
      const onInput = (event: { readonly currentTarget: HTMLInputElement }) =>
        onText(event.currentTarget.value);
      const line = { ...common, value: text, autocomplete: "off", spellcheck: false, onInput };
      const { minimum: min, maximum: max } = setting;
      return setting.kind === "number" ? (
        <input {...line} type="number" step="any" min={min} max={max} />
      ) : (
        <input {...line} type="text" />
      );
    }
  }
}

/** Whether a secret is set, and by what. Its value is not in the page. */
function SecretState({
  setting,
  config,
  canChange,
  onSecret,
  ids,
}: FieldProps & { readonly ids: Ids }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const value = textOf(setting, valueAt(config.view.effective, setting.path));
  const isSet = value !== "";
  const variable = /^env:(.+)$/.exec(value)?.[1];
  const words = isSet ? (variable === undefined ? "set" : `set by the variable ${variable}`) : "not set";
  return (
    <span class="setting-secret" id={ids.id}>
      <Badge tone={isSet ? "good" : "dim"}>{words}</Badge>
      {canChange ? (
        <Button onClick={() => setOpen(true)}>
          {isSet ? "Replace" : "Set"}
          <span class="sr-only"> {setting.key}</span>
        </Button>
      ) : null}
      {isOpen ? (
        <SecretDialog
          setting={setting}
          config={config}
          variable={variable ?? setting.variable ?? variableOf(setting)}
          onClose={() => setOpen(false)}
          onSaved={onSecret}
        />
      ) : null}
    </span>
  );
}

function variableOf({ key }: Setting): string {
  return key.replace(/[^A-Za-z0-9]+/g, "_").toUpperCase();
}

interface SecretDialogProps {
  readonly setting: Setting;
  readonly config: Configuration;
  readonly variable: string;
  readonly onClose: () => void;
  readonly onSaved: () => void;
}

/** The value goes into a variable of the home; the file refers to it by name. */
function SecretDialog({ setting, config, variable, onClose, onSaved }: SecretDialogProps): JSX.Element {
  const isRead = setting.variable === variable;
  const save = async ({ value }: Values) => {
    const url = `/v1/variables/${encodeURIComponent(variable)}`;
    const body: PutVariableBody = { value: String(value) };
    await request<{ url: string; body: PutVariableBody }, void>({ url, method: "PUT", body });
    const patch = patchOf([{ setting, value: `env:${variable}` }], config.view.file);
    if (!isRead && Object.keys(patch).length > 0) await changeConfiguration(patch, config.version);
    onSaved();
    onClose();
    say("Saved. It is in use after a restart.");
  };
  return (
    <Dialog title={`Set ${setting.key}`} onClose={onClose}>
      <Form initial={{ value: "" }} action="Save" onSubmit={save} onCancel={onClose}>
        <TextInput
          name="value"
          label="New value"
          kind="secret"
          isRequired
          hint={`It is written into the variable ${variable} of the home, and never shown again.`}
        />
      </Form>
    </Dialog>
  );
}
