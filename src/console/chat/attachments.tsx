/** Pictures and files of messages: those of the composer, and those that the session has. */
import type { JSX } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { PromptFile } from "../../client/conversation/actions.ts";
import type { ItemAttachment } from "../../client/conversation/state.ts";
import type { SessionAttachmentContent } from "../../client/http.ts";
import { messageOf, request } from "../state/session.ts";
import { Button, Icon, IconButton } from "../ui/controls.tsx";
import { bytes } from "../ui/format.ts";
import { MessageContext } from "./message-context.ts";

interface ChosenProps {
  readonly files: readonly PromptFile[];
  readonly onRemove: (file: PromptFile) => void;
}

/** The files of the composer, each with a way to remove it. */
export function ChosenFiles({ files, onRemove }: ChosenProps): JSX.Element {
  return (
    <ul class="attachments attachments-chosen" aria-label="Attached files">
      {files.map((file, index) => (
        <li key={index} class="attachment">
          {file.kind === "image" ? <img src={file.url} alt="" /> : <Icon name="logs" />}
          <span class="attachment-name">{file.name}</span>
          <span class="dim">{bytes(file.bytes)}</span>
          <IconButton icon="close" label={`Remove ${file.name}`} onClick={() => onRemove(file)} />
        </li>
      ))}
    </ul>
  );
}

/** The files of a message. */
export function MessageFiles({
  attachments,
}: {
  readonly attachments: readonly ItemAttachment[];
}): JSX.Element {
  return (
    <ul class="attachments" aria-label="Files of this message">
      {attachments.map((attachment, index) => (
        <li key={index}>
          {attachment.kind === "image" ? (
            <Picture attachment={attachment} />
          ) : (
            <span class="attachment">
              <Icon name="logs" />
              <span class="attachment-name">{attachment.name}</span>
              <span class="dim">{bytes(attachment.bytes)}</span>
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Larger pictures are loaded on request: a long conversation may have many. */
const MAX_AT_ONCE_BYTES = 2_097_152;

function Picture({ attachment }: { readonly attachment: ItemAttachment }): JSX.Element {
  const { name, of, bytes: size } = attachment;
  const session = useContext(MessageContext)?.sessionId;
  const [url, setUrl] = useState(attachment.url);
  const [isWanted, setWanted] = useState(size <= MAX_AT_ONCE_BYTES);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (url !== undefined || !isWanted || of === undefined || session === undefined) return;
    read(session, of).then(setUrl, (error: unknown) => setProblem(messageOf(error)));
  }, [url, isWanted, session]);
  if (url !== undefined) return <img class="attachment-picture" src={url} alt={name} />;
  if (problem !== "") return <p class="dim">{`${name}: ${problem}`}</p>;
  if (isWanted) return <span class="attachment dim">{`Loading ${name}`}</span>;
  return <Button onClick={() => setWanted(true)}>{`Show ${name} (${bytes(size)})`}</Button>;
}

async function read(sessionId: string, of: NonNullable<ItemAttachment["of"]>): Promise<string> {
  const found = await request<{ url: string; path?: object }, SessionAttachmentContent>({
    url: "/v1/sessions/{session}/messages/{sequence}/attachments/{index}",
    path: { session: sessionId, sequence: of.messageId.replace("msg_", ""), index: of.index },
  });
  return `data:${found.media_type};base64,${found.data}`;
}
