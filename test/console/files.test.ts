import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { composer, conversation, send, startConsole } from "../harness/browser.ts";

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PICTURE = { name: "pixel.png", mimeType: "image/png", buffer: Buffer.from(PIXEL, "base64") };

/** Gives files to the page as a paste or a drop does. */
async function hand(page: Page, how: "paste" | "drop", name: string, base64: string): Promise<void> {
  await composer(page).evaluate(
    (element, { how, name, base64 }) => {
      const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
      const data = new DataTransfer();
      data.items.add(new File([bytes], name));
      const options = { bubbles: true, cancelable: true };
      const event =
        how === "paste"
          ? new ClipboardEvent("paste", { ...options, clipboardData: data })
          : new DragEvent("drop", { ...options, dataTransfer: data });
      element.dispatchEvent(event);
    },
    { how, name, base64 },
  );
}

test("files by paste, drop and button", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await hand(page, "paste", "pasted.png", PIXEL);
  await hand(page, "drop", "notes.md", Buffer.from("# Notes").toString("base64"));
  await page.getByLabel("Files for the message").setInputFiles([PICTURE]);
  const chosen = page.getByRole("list", { name: "Attached files" });
  for (const name of ["pasted.png", "notes.md", "pixel.png"]) await chosen.getByText(name).waitFor();
  const preview = await chosen.locator("img").first().boundingBox();
  assert.equal(preview?.height, 32, "a preview is small, whatever the size of the picture");
  await chosen.getByRole("button", { name: "Remove pixel.png" }).click();
  await chosen.getByText("pixel.png").waitFor({ state: "detached" });
  await send(page, "What do you see?");
  await chosen.waitFor({ state: "detached" });
  const sent = conversation(page).getByRole("list", { name: "Files of this message" });
  await sent.getByRole("img", { name: "pasted.png" }).waitFor();
  await sent.getByText("notes.md").waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  await page.waitForURL(/\/chat\/(?!new)/);

  await page.reload();
  await sent.getByText("notes.md").waitFor();
  const picture = sent.getByRole("img", { name: "pasted.png" });
  await picture.waitFor();
  const width = () => picture.evaluate((element) => (element as HTMLImageElement).naturalWidth);
  while ((await width()) === 0) await page.waitForTimeout(20);
  assert.equal(await width(), 1, "the picture is read from the session");
});

test("a file that cannot be sent is refused by name, with the limit", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  const input = page.getByLabel("Files for the message");
  await input.setInputFiles([
    { name: "big.txt", mimeType: "text/plain", buffer: Buffer.alloc(600_000, "a") },
    { name: "archive.zip", mimeType: "application/zip", buffer: Buffer.from("PK\u0003\u0004\u0000") },
    { name: "nothing.txt", mimeType: "text/plain", buffer: Buffer.alloc(0) },
    {
      name: "huge.png",
      mimeType: "image/png",
      buffer: Buffer.concat([PICTURE.buffer, Buffer.alloc(10_485_760)]),
    },
  ]);
  await page.getByText(/big\.txt has .*: a text file may have at most/).waitFor();
  await page.getByText("archive.zip is not text, a PDF, or a PNG, JPEG, GIF or WebP picture.").waitFor();
  await page.getByText("nothing.txt is empty.").waitFor();
  await page.getByText(/huge\.png has .*: a picture may have at most/).waitFor();
  assert.equal(await page.getByRole("list", { name: "Attached files" }).count(), 0);
});

test("files are kept while the gateway is away, and are sent once when it is back", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "hello");
  await page.waitForURL(/\/chat\/(?!new)/);
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  await page.getByLabel("Files for the message").setInputFiles([PICTURE]);
  await page.getByRole("list", { name: "Attached files" }).waitFor();
  await shown.kill();
  await send(page, "with a picture");
  await page.getByText("Kept here, sent when the gateway answers").waitFor();
  await shown.restart();
  const sent = conversation(page).getByRole("list", { name: "Files of this message" });
  await sent.getByRole("img", { name: "pixel.png" }).waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  await page.reload();
  await sent.getByRole("img", { name: "pixel.png" }).waitFor();
  assert.equal(await sent.count(), 1);
});
