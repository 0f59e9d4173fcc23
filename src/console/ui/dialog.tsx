/** Dialogs, confirmations and short messages at the edge of the page. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { messageOf } from "../state/session.ts";
import { createStore, useStore } from "../state/store.ts";
import { Button, Icon, IconButton } from "./controls.tsx";

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** `wide` for tables and code. */
  readonly size?: "small" | "wide";
}

/** A modal dialog. Escape and the button close it; the focus returns to where it was. */
export function Dialog({ title, onClose, children, size = "small" }: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={`dialog dialog-${size}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div class="dialog-body">
        <header class="dialog-header">
          <h2 id={id}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  readonly title: string;
  readonly children: ComponentChildren;
  /** What the button says, such as "Delete 3 sessions". */
  readonly action: string;
  readonly look?: "primary" | "danger";
  /** Rejects when it failed: the dialog stays open and says why. */
  readonly onConfirm: () => Promise<unknown>;
  readonly onClose: () => void;
}

/** Asks before something is changed for good, and waits until it is done. */
export function Confirm(props: ConfirmProps): JSX.Element {
  const { title, children, action, look = "danger", onConfirm, onClose } = props;
  const [state, setState] = useState({ isBusy: false, problem: "" });
  const confirm = async () => {
    setState({ isBusy: true, problem: "" });
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      setState({ isBusy: false, problem: messageOf(error) });
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="dialog-content">{children}</div>
      {state.problem ? (
        <p class="problem-line" role="alert">
          {state.problem}
        </p>
      ) : null}
      <footer class="dialog-actions">
        <Button onClick={onClose}>Cancel</Button>
        <Button look={look} isBusy={state.isBusy} onClick={() => void confirm()}>
          {action}
        </Button>
      </footer>
    </Dialog>
  );
}

interface Toast {
  readonly id: number;
  readonly level: "info" | "error";
  readonly text: string;
}

const toasts = createStore<readonly Toast[]>([]);
const TOAST_MS = 6_000;
const MAX_TOASTS = 4;
let nextToast = 1;

/** Says something in the corner of the page for a few seconds; errors stay until they are closed. */
export function say(text: string, level: Toast["level"] = "info"): void {
  const id = nextToast++;
  toasts.update((shown) => [...shown, { id, level, text }].slice(-MAX_TOASTS));
  if (level === "info") setTimeout(() => closeToast(id), TOAST_MS);
}

function closeToast(id: number): void {
  toasts.update((shown) => shown.filter((toast) => toast.id !== id));
}

/** Runs an action of the user and says why it failed. */
export function attempt(work: () => Promise<unknown>, done?: string): void {
  const run = async () => {
    try {
      await work();
      if (done !== undefined) say(done);
    } catch (error) {
      say(messageOf(error), "error");
    }
  };
  void run();
}

export function Toasts(): JSX.Element {
  const shown = useStore(toasts, (all) => all);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map(({ id, level, text }) => (
        <div key={id} class={`toast toast-${level}`}>
          <Icon name={level === "error" ? "error" : "info"} />
          <p>{text}</p>
          <IconButton icon="close" label="Close message" onClick={() => closeToast(id)} />
        </div>
      ))}
    </div>
  );
}
