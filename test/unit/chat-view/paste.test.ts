import assert from "node:assert/strict";
import { test } from "node:test";
import { testScreen } from "./screen.ts";
import { IDLE } from "./states.ts";

const lines = (count: number, word = "line") =>
  Array.from({ length: count }, (_, index) => `${word} ${index}`).join("\n");

test("a long paste is one label in the composer and whole in the prompt", () => {
  using screen = testScreen(IDLE);
  screen.press("text:look: ");
  screen.paste(lines(12));
  screen.press("text: thanks");
  assert.match(screen.text(), /› look: \[12 lines pasted\] thanks/);
  screen.press("enter");
  assert.deepEqual(screen.calls, [["submit", `look: ${lines(12)} thanks`, undefined]]);
});

test("a long line is collapsed too, and a short paste stays as it is", () => {
  using screen = testScreen(IDLE);
  screen.paste("x".repeat(2_400));
  assert.match(screen.text(), /› \[2400 characters pasted\]/);
  using short = testScreen(IDLE);
  short.paste(lines(5));
  assert.match(short.text(), /› line 0\n {2}line 1/);
});

test("two pastes of the same length keep their own texts, though one contains the label of the other", () => {
  using screen = testScreen(IDLE);
  const first = `${lines(11, "a")}\n[12 lines pasted, 2]`;
  screen.paste(first);
  screen.paste(lines(12, "b"));
  assert.match(screen.text(), /› \[12 lines pasted\]\[12 lines pasted, 2\]/);
  screen.press("enter");
  assert.deepEqual(screen.calls, [["submit", first + lines(12, "b"), undefined]]);
});

test("Backspace removes a collapsed paste as a whole", () => {
  using screen = testScreen(IDLE);
  screen.press("text:see ");
  screen.paste(lines(12));
  screen.press("backspace");
  assert.match(screen.text(), /› see\n/);
  screen.press("text:this", "enter");
  assert.deepEqual(screen.calls, [["submit", "see this", undefined]]);
});

test("a collapsed paste that was cleared comes back whole with Ctrl-Y", () => {
  using screen = testScreen(IDLE);
  screen.paste(lines(12));
  screen.press("clear-input", "yank", "enter");
  assert.deepEqual(screen.calls, [["submit", lines(12), undefined]]);
});

test("Ctrl-U clears the whole input", () => {
  using screen = testScreen(IDLE);
  screen.press("text:one", "newline", "text:two", "newline", "text:three", "up", "clear-input");
  assert.match(screen.text(), /› write a prompt/);
});

test("the pasted path of an image is reported as a drop, any other paste is not", () => {
  using screen = testScreen(IDLE);
  screen.paste("/tmp/a/img.png");
  screen.paste("~/my\\ pic.JPG");
  screen.paste("'/tmp/my pic.webp'");
  screen.paste("file:///tmp/a.gif");
  screen.paste("src/a.png is a picture");
  screen.paste("/usr/bin/env");
  screen.paste("/tmp/a.png\nand another line");
  assert.deepEqual(
    screen.calls.map(([name, text]) => [name, text]),
    ["/tmp/a/img.png", "~/my\\ pic.JPG", "'/tmp/my pic.webp'", "file:///tmp/a.gif"].map((text) => [
      "drop",
      text,
    ]),
  );
});

test("an attached image replaces its path in the draft, and the words around it stay", () => {
  using screen = testScreen(IDLE);
  screen.press("text:what is ");
  screen.paste("/tmp/a.png");
  screen.press("text: about?");
  const attachments = [{ path: "/tmp/a.png", name: "a.png" }];
  const prefill = { serial: 7, text: "", replaces: "/tmp/a.png" };
  screen.change({ ...IDLE, composer: { ...IDLE.composer, attachments, prefill } });
  assert.match(screen.text(), /^ {2}image a\.png {2}backspace removes it\n› what is {2}about\?$/m);
  screen.press("enter");
  assert.deepEqual(screen.calls.at(-1), ["submit", "what is  about?", undefined]);
});

test("Enter sends an image without a text, and Backspace in an empty composer removes it", () => {
  const attachments = [{ path: "/tmp/a.png", name: "a.png" }];
  using screen = testScreen({ ...IDLE, composer: { ...IDLE.composer, attachments } });
  screen.press("enter", "backspace", "paste-image");
  assert.deepEqual(screen.calls, [["submit", "", undefined], ["detachImage"], ["pasteImage"]]);
});
