/** What commands such as `/help` and `/model` show: pages of text, and choices. */
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { navigate } from "../router.ts";
import { useStore } from "../state/store.ts";
import { Loading } from "../ui/controls.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Diff } from "../ui/diff.tsx";
import type { Conversation } from "./conversations.ts";

export function Viewer({ conversation }: { readonly conversation: Conversation }): JSX.Element | null {
  const { chat, state } = conversation;
  const viewer = useStore(state, (all) => all.viewer);
  const picker = useStore(state, (all) => all.picker);
  const isSessions = picker?.kind === "sessions";
  useEffect(() => {
    if (!isSessions) return;
    chat.closePicker();
    navigate("/sessions");
  }, [isSessions]);
  if (viewer) {
    const page = viewer.pages[viewer.at];
    return (
      <Dialog title={page?.title ?? ""} size="wide" onClose={chat.closeViewer}>
        {page?.isDiff ? (
          <Diff text={page.text} label={page.title} />
        ) : (
          <pre class="viewer-text" tabIndex={0} aria-label={page?.title}>
            {page?.text}
          </pre>
        )}
      </Dialog>
    );
  }
  if (picker?.kind !== "models") return null;
  return (
    <Dialog title="Model of this session" onClose={chat.closePicker}>
      {picker.isLoading ? <Loading /> : null}
      <ul class="choices">
        {picker.rows.map(({ id, provider, model, isCurrent, warning }) => (
          <li key={id}>
            <button type="button" aria-current={isCurrent || undefined} onClick={() => chat.pick(id)}>
              <b>{model}</b> <span class="dim">{provider}</span>
              {warning ? <span class="tone-warn">{warning}</span> : null}
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
