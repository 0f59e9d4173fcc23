/** Markdown as nodes. No HTML is ever made of it: tags in the text stay text, pictures become links. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Copy } from "./controls.tsx";
import type { CodeNode } from "./highlight.ts";
import { memo } from "./memo.ts";
import {
  inlineTokens,
  isSafeAddress,
  lexGrowing,
  plainText,
  type LexedText,
  type Token,
  type Tokens,
} from "./markdown-tokens.ts";

export const Markdown = memo(function Markdown({ text }: { readonly text: string }): JSX.Element {
  const lexed = useRef<LexedText | undefined>(undefined);
  lexed.current = lexGrowing(lexed.current, text);
  const { kept, tail } = lexed.current;
  return (
    <div class="markdown">
      {kept.map((token, index) => (
        <Block key={index} token={token} />
      ))}
      {tail.map((token, index) => (
        <Block key={kept.length + index} token={token} />
      ))}
    </div>
  );
});

const Block = memo(function Block({ token }: { readonly token: Token }): JSX.Element | null {
  const known = token as Tokens.Generic & Token;
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "hr":
      return <hr />;
    case "heading":
      return <Heading token={token as Tokens.Heading} />;
    case "code":
      return <Code text={(token as Tokens.Code).text} language={(token as Tokens.Code).lang ?? ""} />;
    case "blockquote":
      return <blockquote>{blocks((token as Tokens.Blockquote).tokens)}</blockquote>;
    case "list":
      return <List token={token as Tokens.List} />;
    case "table":
      return <Table token={token as Tokens.Table} />;
    case "paragraph":
      return <p>{inline(inlineTokens((token as Tokens.Paragraph).text))}</p>;
    case "text":
      return <>{inline(inlineTokens((token as Tokens.Text).text))}</>;
    default:
      return <p>{known.raw}</p>;
  }
});

function blocks(tokens: readonly Token[]): ComponentChildren {
  return tokens.map((token, index) => <Block key={index} token={token} />);
}

/** Headings of an answer stand below those of the page. */
function Heading({ token }: { readonly token: Tokens.Heading }): JSX.Element {
  const Level = `h${Math.min(6, token.depth + 2)}` as "h3";
  return <Level>{inline(inlineTokens(token.text))}</Level>;
}

function List({ token }: { readonly token: Tokens.List }): JSX.Element {
  const items = token.items.map((item, index) => (
    <li key={index} class={item.task ? "task" : undefined}>
      {item.task ? (
        <input
          type="checkbox"
          checked={item.checked === true}
          disabled
          aria-label={item.checked ? "Done" : "To do"}
        />
      ) : null}
      {blocks(item.tokens.filter(({ type }) => type !== "checkbox"))}
    </li>
  ));
  if (!token.ordered) return <ul>{items}</ul>;
  return <ol start={Number(token.start) || 1}>{items}</ol>;
}

function Table({ token }: { readonly token: Tokens.Table }): JSX.Element {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {token.header.map((cell, index) => (
              <th key={index}>{inline(inlineTokens(cell.text))}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column}>{inline(inlineTokens(cell.text))}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: readonly Token[]): ComponentChildren {
  return tokens.map((token, index) => <Inline key={index} token={token} />);
}

function Inline({ token }: { readonly token: Token }): JSX.Element {
  switch (token.type) {
    case "strong":
      return <strong>{inline(token.tokens ?? [])}</strong>;
    case "em":
      return <em>{inline(token.tokens ?? [])}</em>;
    case "del":
      return <del>{inline(token.tokens ?? [])}</del>;
    case "codespan":
      return <code>{plainText((token as Tokens.Codespan).text)}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link token={token as Tokens.Link} />;
    case "image":
      return <Picture token={token as Tokens.Image} />;
    case "escape":
    case "text":
      return (
        <>
          {"tokens" in token && token.tokens ? inline(token.tokens) : plainText((token as Tokens.Text).text)}
        </>
      );
    default:
      return <>{token.raw}</>;
  }
}

function Link({ token }: { readonly token: Tokens.Link }): JSX.Element {
  if (!isSafeAddress(token.href)) return <>{token.raw}</>;
  return (
    <a href={token.href} target="_blank" rel="noreferrer noopener">
      {inline(token.tokens)}
    </a>
  );
}

/** A picture is not loaded: a request for it would report that the answer was read. */
function Picture({ token }: { readonly token: Tokens.Image }): JSX.Element {
  const name = token.text || token.href;
  if (!isSafeAddress(token.href)) return <>{token.raw}</>;
  return (
    <a href={token.href} target="_blank" rel="noreferrer noopener" class="picture-link">
      {`Picture: ${name}`}
    </a>
  );
}

/** Code that is still being written is not coloured at each character. */
const HIGHLIGHT_AFTER_MS = 150;

export function Code({ text, language }: { readonly text: string; readonly language: string }): JSX.Element {
  const [coloured, setColoured] = useState<{ text: string; nodes: readonly CodeNode[] }>();
  useEffect(() => {
    if (language === "") return undefined;
    let isShown = true;
    const timer = setTimeout(() => {
      void import("./highlight.ts").then(({ highlight }) => {
        const nodes = highlight(language.toLowerCase(), text);
        if (isShown && nodes) setColoured({ text, nodes });
      });
    }, HIGHLIGHT_AFTER_MS);
    return () => {
      isShown = false;
      clearTimeout(timer);
    };
  }, [language, text]);
  return (
    <figure class="code">
      <figcaption>
        <span>{language || "text"}</span>
        <Copy text={text} />
      </figcaption>
      <pre tabIndex={0} aria-label={`Code, ${language || "text"}`}>
        <code>{coloured?.text === text ? nodesOf(coloured.nodes) : text}</code>
      </pre>
    </figure>
  );
}

function nodesOf(nodes: readonly CodeNode[]): ComponentChildren {
  return nodes.map(({ text, className, children }, index) =>
    text === undefined ? (
      <span key={index} class={className}>
        {nodesOf(children ?? [])}
      </span>
    ) : (
      text
    ),
  );
}
