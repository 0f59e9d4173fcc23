import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import type { Json } from "../../harness/rpc.ts";
import { openSession, rpcScenario, takeTurn, type RpcSetting } from "./scenario.ts";

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const image = Buffer.from(PNG, "base64");

/** A folder of the scenario's own in the workspace. */
async function folderOf({ service, owner }: RpcSetting): Promise<string> {
  const folder = join(service.workspace, owner);
  await mkdir(folder, { recursive: true });
  return folder;
}

rpcScenario("terminal.resize", "any screen width is accepted", async (host) => {
  const session_id = await openSession(host);
  assert.deepEqual(await host.result("terminal.resize", { session_id }), { cols: 80 });
  assert.deepEqual(await host.result("terminal.resize", { session_id, cols: 120, rows: 40 }), { cols: 120 });
  for (const bad of [{ cols: 0 }, { cols: 10_001 }, { cols: 80.5 }, { cols: "80" }, { rows: 0 }]) {
    await host.error("terminal.resize", { session_id, ...bad }, -32602);
  }
});

rpcScenario(
  "image.attach",
  "quoted, escaped, as a URL, relative, with text after it",
  async (host, setting) => {
    const folder = await folderOf(setting);
    const session_id = await openSession(host, { cwd: folder });
    const path = join(folder, "my pic.png");
    await writeFile(path, image);
    for (const [typed, remainder] of [
      [`"${path}" what is it`, "what is it"],
      [`'${path}'`, ""],
      [`${path.replaceAll(" ", "\\ ")} and this`, "and this"],
      [path, ""],
      [`${path} \n two lines\nof text`, "two lines\nof text"],
      [`file://${path.replaceAll(" ", "%20")}`, ""],
      ["my pic.png", ""],
      ["./my pic.png please", "please"],
      [`../${setting.owner}/my pic.png`, ""],
    ] as const) {
      const done = await host.result("image.attach", { session_id, path: typed });
      assert.deepEqual(
        [done.attached, done.path, done.name, done.remainder],
        [true, path, "my pic.png", remainder],
        typed,
      );
      assert.deepEqual(
        [done.width, done.height, done.text],
        [1, 1, remainder || "[User attached image: my pic.png]"],
      );
    }
    assert.equal((await host.result("image.attach", { session_id, path })).count, 10);
  },
);

rpcScenario("image.attach", "an attached image goes with the next prompt only", async (host, setting) => {
  const folder = await folderOf(setting);
  await writeFile(join(folder, "a.png"), image);
  const session_id = await openSession(host, { cwd: folder });
  await host.result("image.attach", { session_id, path: "a.png" });
  await takeTurn(host, session_id, "look");
  const [prompt] = await promptsOf(setting, session_id);
  assert.equal(prompt?.attachments?.length, 1);
  assert.deepEqual(await host.result("image.detach", { session_id, path: join(folder, "a.png") }), {
    detached: false,
    count: 0,
  });
});

rpcScenario(
  ["image.attach 4015", "image.detach 4015", "image.attach_bytes 4015"],
  "the path is empty",
  async (host) => {
    const session_id = await openSession(host);
    for (const path of ["", " ", "\n\t"]) {
      await host.error("image.attach", { session_id, path }, 4015);
      await host.error("image.detach", { session_id, path }, 4015);
      await host.error("image.attach_bytes", { session_id, content_base64: path }, 4015);
    }
    await host.error("image.attach_bytes", { session_id }, 4015);
    for (const bad of [{}, { path: 5 }, { path: "x".repeat(65_537) }]) {
      await host.error("image.attach", { session_id, ...bad }, -32602);
      await host.error("image.detach", { session_id, ...bad }, -32602);
    }
  },
);

rpcScenario("image.attach 4016", "no file, or not an image", async (host, setting) => {
  const folder = await folderOf(setting);
  const session_id = await openSession(host, { cwd: folder });
  await writeFile(join(folder, "text.png"), "no image at all");
  await writeFile(join(folder, "empty.png"), "");
  await writeFile(join(folder, "cut.png"), image.subarray(0, 20));
  await mkdir(join(folder, "folder.png"));
  await symlink(join(folder, "nowhere"), join(folder, "dangling.png"));
  for (const path of [
    "none.png",
    "text.png",
    "empty.png",
    "cut.png",
    "folder.png",
    "dangling.png",
    ".",
    '"unfinished.png',
    "a\0b.png",
    "http://127.0.0.1/a.png",
    "\uD800.png",
    "x".repeat(5_000),
    " ".repeat(10) + "x ".repeat(20_000),
  ]) {
    const { data } = await host.error("image.attach", { session_id, path }, 4016);
    assert.equal(data.reason, "not_found_or_unsupported", path.slice(0, 40));
  }
});

rpcScenario("image.attach 4018", "too large, or too many", async (host, setting) => {
  const folder = await folderOf(setting);
  const session_id = await openSession(host, { cwd: folder });
  await writeFile(join(folder, "large.png"), Buffer.concat([image, Buffer.alloc(10_485_760)]));
  await host.error("image.attach", { session_id, path: "large.png" }, 4018);
  await writeFile(join(folder, "a.png"), image);
  for (let n = 0; n < 32; n++) await host.result("image.attach", { session_id, path: "a.png" });
  const { message } = await host.error("image.attach", { session_id, path: "a.png" }, 4018);
  assert.match(message, /32 images, /);
});

rpcScenario(
  "image.attach 4030",
  "outside the folders, without revealing whether the file exists",
  async (host, setting) => {
    const folder = await folderOf(setting);
    const session_id = await openSession(host, { cwd: folder });
    await symlink("/etc/passwd", join(folder, "link.png"));
    await symlink("/etc", join(folder, "etc"));
    const messages = new Set<string>();
    for (const path of [
      "/etc/passwd",
      "/etc/no-such-file",
      "'/etc/passwd'",
      "file:///etc/passwd",
      "../../../../../etc/passwd",
      "etc/passwd",
      "link.png",
      "/proc/self/environ",
      "/dev/zero",
    ]) {
      const { data, message } = await host.error("image.attach", { session_id, path }, 4030);
      assert.equal(data.reason, "path_outside_root", path);
      messages.add(message);
    }
    assert.equal(messages.size, 1);
    assert.match([...messages][0] ?? "", /image\.attach_bytes/);
  },
);

rpcScenario("image.attach_bytes", "base64, a data URL, with a name or without", async (host) => {
  const session_id = await openSession(host);
  const attach = (more: Json) => host.result("image.attach_bytes", { session_id, ...more });
  const named = await attach({ content_base64: PNG, filename: "../../x.png" });
  assert.deepEqual([named.attached, named.path, named.name, named.count], [true, "x.png", "x.png", 1]);
  assert.equal((await attach({ data: `data:image/png;base64,${PNG}`, filename: "x.png" })).name, "x-2.png");
  assert.equal((await attach({ data: PNG.replace(/(.{40})/g, "$1\r\n") })).name, "image-3.png");
  assert.equal((await attach({ data: PNG, filename: "C:\\pics\\y.png", ext: "png" })).name, "y.png");
});

rpcScenario("image.attach_bytes 4016", "bytes that are not an image", async (host) => {
  const session_id = await openSession(host);
  for (const text of ["hello", "%PDF-1.7", "\u0000\u0001"]) {
    await host.error("image.attach_bytes", { session_id, data: btoa(text) }, 4016);
  }
});

rpcScenario("image.attach_bytes 4017", "text that is not base64", async (host) => {
  const session_id = await openSession(host);
  for (const data of ["%%%", "A", "AAAAA", "=AAA", "AA=A", "ü", "data:image/png,plain"]) {
    await host.error("image.attach_bytes", { session_id, data }, 4017);
  }
});

rpcScenario("image.attach_bytes 4018", "too large, or too many", async (host) => {
  const session_id = await openSession(host);
  await host.error("image.attach_bytes", { session_id, data: "A".repeat(14_500_000) }, 4018);
  for (let n = 0; n < 32; n++) await host.result("image.attach_bytes", { session_id, data: PNG });
  await host.error("image.attach_bytes", { session_id, data: PNG }, 4018);
});

rpcScenario("image.detach", "detaches exactly the image of this path", async (host) => {
  const session_id = await openSession(host);
  for (const filename of ["a.png", "b.png"])
    await host.result("image.attach_bytes", { session_id, data: PNG, filename });
  const detach = (path: string) => host.result("image.detach", { session_id, path });
  assert.deepEqual(await detach("none.png"), { detached: false, count: 2 });
  assert.deepEqual(await detach("a.png"), { detached: true, count: 1 });
  assert.deepEqual(await detach("a.png"), { detached: false, count: 1 });
});

rpcScenario(
  "input.detect_drop",
  "an image is attached, another file is named, a sentence is ignored",
  async (host, setting) => {
    const folder = await folderOf(setting);
    const session_id = await openSession(host, { cwd: folder });
    await writeFile(join(folder, "a b.png"), image);
    await writeFile(join(folder, "notes.txt"), "notes");
    const detect = (text: string) => host.result("input.detect_drop", { session_id, text });
    const pic = await detect(`'${join(folder, "a b.png")}' look`);
    assert.deepEqual(
      [pic.matched, pic.is_image, pic.name, pic.text, pic.count],
      [true, true, "a b.png", "look", 1],
    );
    const file = await detect(`${join(folder, "notes.txt")} read it`);
    assert.deepEqual([file.matched, file.is_image, file.path], [true, false, join(folder, "notes.txt")]);
    assert.equal(file.text, `[User attached file: ${join(folder, "notes.txt")}]\nread it`);
    for (const text of [
      "",
      "hello",
      "what is /etc?",
      "/help",
      "/no/such/file",
      "/etc",
      "/a\0b",
      "~/",
      "notes.txt",
    ]) {
      assert.deepEqual(await detect(text), { matched: false }, text);
    }
    await host.error("input.detect_drop", { session_id, text: "x".repeat(65_537) }, -32602);
  },
);

rpcScenario(
  "clipboard.paste",
  { title: "without a clipboard program, or without an image", env: {} },
  async (host) => {
    const session_id = await openSession(host);
    const { attached, message } = await host.result("clipboard.paste", { session_id });
    assert.deepEqual([attached, message], [false, "The clipboard holds no image."]);
  },
);

/** A folder with a `wl-paste` that prints what it is given. */
const clipboard = await mkdtemp(join(tmpdir(), "agentd-clipboard-"));
const held = join(clipboard, "held");
await writeFile(join(clipboard, "wl-paste"), `#!/bin/sh\nexec cat ${held}\n`);
await chmod(join(clipboard, "wl-paste"), 0o755);
const withClipboard = {
  env: { WAYLAND_DISPLAY: "wayland-0", PATH: `${clipboard}:${process.env["PATH"] ?? ""}` },
};

rpcScenario(
  "clipboard.paste",
  { title: "the image of this machine's clipboard is attached", ...withClipboard },
  async (host) => {
    const session_id = await openSession(host);
    await writeFile(held, image);
    const pasted = await host.result("clipboard.paste", { session_id });
    assert.deepEqual(
      [pasted.attached, pasted.name, pasted.count, pasted.width],
      [true, "clipboard-1.png", 1, 1],
    );
    assert.equal((await host.result("clipboard.paste", { session_id })).name, "clipboard-2.png");
  },
);

rpcScenario(
  "clipboard.paste 5027",
  { title: "the clipboard content is not an image", ...withClipboard },
  async (host) => {
    const session_id = await openSession(host);
    await writeFile(held, "no image at all");
    const { data } = await host.error("clipboard.paste", { session_id }, 5027);
    assert.equal(data.reason, "attach_failed");
  },
);

rpcScenario(
  [
    "terminal.resize 4001",
    "clipboard.paste 4001",
    "image.attach 4001",
    "image.attach_bytes 4001",
    "image.detach 4001",
    "input.detect_drop 4001",
  ],
  "the session is unknown, another owner's, or saved and not open",
  async (host, { connect, owner }) => {
    const other = await openSession(await connect({ owner: `${owner}-too` }));
    const closed = await openSession(host);
    await takeTurn(host, closed, "hello");
    await host.result("session.close", { session_id: closed });
    for (const [session_id, reason] of [
      ["none", "session_not_found"],
      [other, "session_not_found"],
      [closed, "not_live"],
    ]) {
      for (const [method, params] of [
        ["terminal.resize", {}],
        ["clipboard.paste", {}],
        ["image.attach", { path: "a.png" }],
        ["image.attach_bytes", { data: PNG }],
        ["image.detach", { path: "a.png" }],
        ["input.detect_drop", { text: "/a.png" }],
      ] as const) {
        const { data } = await host.error(method, { session_id, ...params }, 4001);
        assert.equal(data.reason, reason, method);
      }
    }
  },
);

/** What the runs of a session were asked. */
async function promptsOf({ service }: RpcSetting, sessionId: string) {
  const rows = await service.service.store.read
    .selectFrom("messages")
    .select("content")
    .where("session_id", "=", sessionId)
    .where("role", "=", "user")
    .execute();
  return rows.map(({ content }) => JSON.parse(content) as { readonly attachments?: readonly unknown[] });
}
