import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ServiceError } from "../../../src/base/errors.ts";
import {
  prepareHome,
  readPrivateFile,
  resolveHome,
  resolveWithin,
  withFileLock,
  writePrivateFile,
} from "../../../src/config/home.ts";
import { createHome, modeOf } from "./home-folder.ts";

const invalid = (pattern: RegExp) => (error: unknown) =>
  error instanceof ServiceError && error.code === "invalid_config" && pattern.test(error.message);

describe("resolveHome", () => {
  const userHome = "/home/ann";

  it("is ~/.agentd without AGENTD_HOME", () => {
    assert.equal(resolveHome({ env: {}, userHome }), "/home/ann/.agentd");
    assert.equal(resolveHome({ env: { AGENTD_HOME: "" }, userHome }), "/home/ann/.agentd");
  });

  it("is AGENTD_HOME when it is set, with ~ as the user's home", () => {
    assert.equal(resolveHome({ env: { AGENTD_HOME: "/srv/a/../b" }, userHome }), "/srv/b");
    assert.equal(resolveHome({ env: { AGENTD_HOME: "~/x" }, userHome }), "/home/ann/x");
  });

  it("puts a profile, from the option or else AGENTD_PROFILE, below profiles/", () => {
    const env = { AGENTD_HOME: "/srv", AGENTD_PROFILE: "work" };
    assert.equal(resolveHome({ env, userHome }), "/srv/profiles/work");
    assert.equal(resolveHome({ env, userHome, profile: "home-2" }), "/srv/profiles/home-2");
    assert.equal(resolveHome({ env: { AGENTD_HOME: "/srv", AGENTD_PROFILE: "" }, userHome }), "/srv");
  });

  for (const profile of ["..", "a/b", "A", "-x", ".hidden", "a b", "x".repeat(65), "a\n"]) {
    it(`refuses the profile name ${JSON.stringify(profile)}`, () => {
      assert.throws(() => resolveHome({ env: {}, userHome, profile }), invalid(/profile name/));
    });
  }
});

describe("prepareHome", () => {
  it("creates the home and its parents with mode 0700", async () => {
    await using made = await createHome();
    const home = join(made.home, "profiles", "work");
    assert.deepEqual(await prepareHome(home), []);
    assert.equal(await modeOf(home), "700");
    assert.equal(await modeOf(join(made.home, "profiles")), "700");
  });

  it("removes the access of other users to the home and its files, and reports it", async () => {
    await using made = await createHome({ ".env": "A=1\n", "config.yaml": "" });
    await chmod(made.home, 0o755);
    await chmod(join(made.home, ".env"), 0o644);
    const notices = await prepareHome(made.home);
    assert.equal(notices.length, 2);
    assert.match(notices[1] ?? "", /\.env was open to other users \(mode 0644\); its mode is now 0600\./);
    assert.deepEqual([await modeOf(made.home), await modeOf(join(made.home, ".env"))], ["700", "600"]);
    assert.deepEqual(await prepareHome(made.home), []);
  });

  it("keeps a stricter mode", async () => {
    await using made = await createHome({ ".env": "" });
    await chmod(join(made.home, ".env"), 0o400);
    assert.deepEqual(await prepareHome(made.home), []);
    assert.equal(await modeOf(join(made.home, ".env")), "400");
  });

  it("does not change the target of a link", async () => {
    await using made = await createHome({ shared: "" });
    await chmod(join(made.home, "shared"), 0o644);
    await symlink(join(made.home, "shared"), join(made.home, "config.yaml"));
    assert.deepEqual(await prepareHome(made.home), []);
    assert.equal(await modeOf(join(made.home, "shared")), "644");
  });

  it("refuses a folder that all users share, and changes nothing", async () => {
    await using made = await createHome();
    await chmod(made.home, 0o1777);
    await assert.rejects(prepareHome(made.home), invalid(/all users share.*AGENTD_HOME/));
    assert.equal(await modeOf(made.home), "1777");
  });

  it("says what to do when the home is a file", async () => {
    await using made = await createHome({ file: "" });
    await assert.rejects(
      prepareHome(join(made.home, "file")),
      invalid(/cannot be created \(a file is in its place, EEXIST\).*AGENTD_HOME/),
    );
  });
});

describe("private files", () => {
  it("are undefined when they do not exist", async () => {
    await using made = await createHome();
    assert.equal(await readPrivateFile(join(made.home, "none")), undefined);
  });

  it("are refused when they are not text, too large, or folders", async () => {
    await using made = await createHome();
    const path = join(made.home, "file");
    await writeFile(path, new Uint8Array([0xff, 0xfe]));
    await assert.rejects(readPrivateFile(path), invalid(/is not UTF-8 text/));
    await writeFile(path, "a".repeat(1_048_577));
    await assert.rejects(readPrivateFile(path), invalid(/larger than 1048576 bytes/));
    await mkdir(join(made.home, "folder"));
    await assert.rejects(readPrivateFile(join(made.home, "folder")), invalid(/cannot be read \(EISDIR\)/));
  });

  it("are written with mode 0600 and leave no temporary files", async () => {
    await using made = await createHome({ file: "old" });
    const path = join(made.home, "file");
    await chmod(path, 0o644);
    await writePrivateFile(path, "new");
    assert.equal(await readFile(path, "utf8"), "new");
    assert.equal(await modeOf(path), "600");
    assert.deepEqual(await readdir(made.home), ["file"]);
  });

  it("remain links", async () => {
    await using made = await createHome({ real: "old" });
    await symlink(join(made.home, "real"), join(made.home, "link"));
    await writePrivateFile(join(made.home, "link"), "new");
    assert.equal(await readFile(join(made.home, "real"), "utf8"), "new");
  });
});

describe("withFileLock", () => {
  it("runs one work at a time, and continues after a failure", async () => {
    await using made = await createHome();
    const path = join(made.home, "file");
    let running = 0;
    let most = 0;
    const work = async (fails: boolean) => {
      running += 1;
      most = Math.max(most, running);
      await readdir(made.home);
      running -= 1;
      if (fails) throw new Error("failed");
    };
    const results = await Promise.allSettled(
      [true, false, false, true].map((fails) => withFileLock(path, () => work(fails))),
    );
    assert.deepEqual(results.map(({ status }) => status).sort(), [
      "fulfilled",
      "fulfilled",
      "rejected",
      "rejected",
    ]);
    assert.equal(most, 1);
  });
});

describe("resolveWithin", () => {
  it("reads relative paths from the base, absolute ones as they are, and ~ as the user's home", () => {
    assert.equal(resolveWithin("/base", "x/y", "/home/ann"), "/base/x/y");
    assert.equal(resolveWithin("/base", "/abs", "/home/ann"), "/abs");
    assert.equal(resolveWithin("/base", "~/w", "/home/ann"), "/home/ann/w");
  });
});
