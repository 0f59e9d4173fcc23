/** Forms: fields by name, what the server says about each, and a button that waits until it is saved. */
import type { ComponentChildren, JSX } from "preact";
import { createContext } from "preact";
import { useContext, useState } from "preact/hooks";
import { AgentApiError } from "../../client/request.ts";
import { messageOf } from "../state/session.ts";
import { Button, CheckBox, Field } from "./controls.tsx";

export type Values = Readonly<Record<string, string | boolean>>;

interface FormState {
  readonly values: Values;
  readonly set: (name: string, value: string | boolean) => void;
  /** The field that the server complained about, and why. */
  readonly problem: { readonly param: string | null; readonly text: string };
  readonly isBusy: boolean;
}

const FormContext = createContext<FormState | undefined>(undefined);

interface FormProps {
  readonly initial: Values;
  /** What the button says. */
  readonly action: string;
  /** Rejects when it failed: the form stays as it is and says why, at the field if the server names one. */
  readonly onSubmit: (values: Values) => Promise<unknown>;
  readonly onCancel?: () => void;
  readonly children: ComponentChildren | ((values: Values) => ComponentChildren);
}

export function Form({ initial, action, onSubmit, onCancel, children }: FormProps): JSX.Element {
  const [values, setValues] = useState(initial);
  const [problem, setProblem] = useState<FormState["problem"]>({ param: null, text: "" });
  const [isBusy, setBusy] = useState(false);
  const set = (name: string, value: string | boolean) => setValues((all) => ({ ...all, [name]: value }));
  const submit = async () => {
    setBusy(true);
    setProblem({ param: null, text: "" });
    try {
      await onSubmit(values);
    } catch (error) {
      const param = error instanceof AgentApiError ? error.param : null;
      setProblem({ param: param !== null && param in values ? param : null, text: messageOf(error) });
    } finally {
      setBusy(false);
    }
  };
  return (
    <FormContext.Provider value={{ values, set, problem, isBusy }}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {typeof children === "function" ? children(values) : children}
        {problem.text && problem.param === null ? (
          <p class="problem-line" role="alert">
            {problem.text}
          </p>
        ) : null}
        <footer class="dialog-actions">
          {onCancel ? <Button onClick={onCancel}>Cancel</Button> : null}
          <Button type="submit" look="primary" isBusy={isBusy}>
            {action}
          </Button>
        </footer>
      </form>
    </FormContext.Provider>
  );
}

interface InputProps {
  readonly name: string;
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly placeholder?: string;
  readonly isRequired?: boolean;
}

function useField(name: string) {
  const form = useContext(FormContext);
  if (!form) throw new Error(`The field ${name} needs a form around it.`);
  const error = form.problem.param === name ? form.problem.text : undefined;
  return {
    value: form.values[name],
    set: (value: string | boolean) => form.set(name, value),
    error,
    isBusy: form.isBusy,
  };
}

type TextProps = InputProps & {
  /** `secret` is typed unseen and never filled in. */
  readonly kind?: "text" | "number" | "secret" | "long" | "code";
};

export function TextInput({
  name,
  label,
  hint,
  placeholder,
  isRequired,
  kind = "text",
}: TextProps): JSX.Element {
  const { value, set, error, isBusy } = useField(name);
  return (
    <Field label={label} hint={hint} error={error}>
      {({ id, describedBy }) => {
        const common = {
          id,
          name,
          value: String(value ?? ""),
          placeholder,
          required: isRequired,
          disabled: isBusy,
          "aria-describedby": describedBy,
          "aria-invalid": error !== undefined,
        };
        if (kind === "long" || kind === "code") {
          const look = kind === "code" ? "input input-code" : "input";
          const take = (event: { readonly currentTarget: HTMLTextAreaElement }) =>
            set(event.currentTarget.value);
          return <textarea {...common} class={look} spellcheck={kind === "long"} onInput={take} />;
        }
        const onInput = (event: { readonly currentTarget: HTMLInputElement }) =>
          set(event.currentTarget.value);
        const line = { ...common, class: "input", autocomplete: "off", onInput };
        if (kind === "secret") return <input {...line} type="password" />;
        return kind === "number" ? (
          <input {...line} type="number" step="any" />
        ) : (
          <input {...line} type="text" />
        );
      }}
    </Field>
  );
}

type SelectProps = InputProps & { readonly options: readonly (readonly [value: string, word: string])[] };

export function SelectInput({ name, label, hint, options }: SelectProps): JSX.Element {
  const { value, set, error, isBusy } = useField(name);
  return (
    <Field label={label} hint={hint} error={error}>
      {({ id, describedBy }) => (
        <select
          id={id}
          class="input"
          value={String(value ?? "")}
          disabled={isBusy}
          aria-describedby={describedBy}
          onChange={(event) => set(event.currentTarget.value)}
        >
          {options.map(([choice, word]) => (
            <option key={choice} value={choice}>
              {word}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function CheckInput({ name, label, hint }: InputProps): JSX.Element {
  const { value, set, isBusy } = useField(name);
  return <CheckBox label={label} hint={hint} isOn={value === true} isDisabled={isBusy} onChange={set} />;
}
