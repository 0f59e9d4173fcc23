import { serve, get, text, to, refusal } from "./fetching.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  FetchFailedError,
  BlockedAddressError,
  objectionTo,
  objectionToHost,
  UnresolvedNameError,
} from "../../../src/base/net/fetch.ts";

test("every spelling of this machine is refused before anything is looked up", async () => {
  const spellings = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "127.0.0.1.",
    "127.8.9.10",
    "0",
    "0.0.0.0",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "%6cocalhost",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "127。0。0。1",
    "①②⑦.0.0.1",
  ];
  for (const host of spellings) {
    await refusal(`http://${host}/`);
    await refusal(`https://${host}:8443/x?y`);
  }
});

test("every range that is not the public internet is refused", async () => {
  const hosts = [
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "[fe80::1]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd12:3456::1]",
    "[ff02::1]",
    "[100::1]",
    "[2001:db8::1]",
    "[2002:7f00:1::]",
    "[2002:c0a8:101::]",
    "[2001:0:7f00:1::]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::a00:1]",
    "[4000::1]",
    "[::8.8.8.8]",
  ];
  for (const host of hosts) await refusal(`http://${host}/`);
});

test("public addresses pass, also those that a NAT64 gateway translates", () => {
  for (const address of ["8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"])
    assert.equal(objectionTo(address), undefined, address);
  assert.notEqual(objectionTo("no address"), undefined);
});

test("metadata services are refused by address and by name", async () => {
  const urls = [
    "169.254.169.254",
    "[fd00:ec2::254]",
    "168.63.129.16",
    "metadata.google.internal",
    "METADATA.google.internal.",
  ];
  for (const host of urls) assert.match((await refusal(`http://${host}/latest`)).message, /metadata service/);
});

test("an allowed name does not allow a metadata service", async () => {
  const options = { allowedPrivateHosts: ["wiki.example"], lookup: to("169.254.169.254") };
  assert.match((await refusal("http://wiki.example/", options)).message, /wiki\.example .*metadata/);
  const mapped = { allowedPrivateHosts: ["wiki.example"], lookup: to("::ffff:169.254.169.254") };
  await refusal("http://wiki.example/", mapped);
});

test("a refusal says which host, why, and the hint of the caller, if any", async () => {
  const lookup = to("10.0.0.7");
  const error = await refusal("http://intra.example/", { lookup, hint: "Add it to some.allowed_hosts." });
  const why = "intra.example is refused: its address 10.0.0.7 is private.";
  assert.equal(error.message, `${why} Add it to some.allowed_hosts.`);
  assert.equal(error.host, "intra.example");
  assert.equal((await refusal("http://intra.example/", { lookup })).message, why);
});

test("one private address among public ones refuses the name", async () => {
  await refusal("http://mixed.example/", { lookup: to("8.8.8.8", "2606:4700::1111", "127.0.0.1") });
  await refusal("http://mixed.example/", { lookup: to("::ffff:10.0.0.1") });
  await refusal("http://mixed.example/", { lookup: to("fe80::1%eth0") });
  await refusal("http://mixed.example/", { lookup: to("garbage") });
});

test("other schemes, credentials and broken addresses are refused", async () => {
  const urls = [
    "file:///etc/passwd",
    "ftp://a.example/",
    "data:text/plain,x",
    "gopher://a/",
    "no url",
    "http://",
  ];
  for (const url of [
    ...urls,
    "http://u:p@a.example/",
    "http://8.8.8.8@127.0.0.1/",
    "http://a.example\\@127.0.0.1/x",
  ]) {
    const failed = await get(url, { lookup: to("127.0.0.1") }).catch((error: unknown) => error);
    assert.ok(
      failed instanceof FetchFailedError || failed instanceof BlockedAddressError,
      `${url}: ${failed}`,
    );
  }
});

test("the connection goes to the address that was checked, and the name is looked up once for each hop", async (t) => {
  const hosts: (string | undefined)[] = [];
  const port = await serve(t, (request, response) => {
    hosts.push(request.headers.host);
    response.end("here");
  });
  let lookups = 0;
  const lookup = async () => [lookups++ === 0 ? "127.0.0.1" : "10.255.255.1"];
  const options = { lookup, allowedPrivateHosts: ["rebind.example"] };
  const answer = await get(`http://rebind.example:${port}/a?b=c`, options);
  assert.equal(text(answer.body), "here");
  assert.equal(lookups, 1);
  assert.deepEqual(hosts, [`rebind.example:${port}`]);
});

test("an allowed host is one name, with its port when one is given, in any spelling", async (t) => {
  const port = await serve(t, (_, response) => response.end("ok"));
  const status = async (host: string, allowed: string) =>
    (await get(`http://${host}:${port}/`, { allowedPrivateHosts: [allowed], lookup: to("127.0.0.1") }))
      .status;
  assert.equal(await status("wiki.example", "wiki.example"), 200);
  assert.equal(await status("wiki.example", "Wiki.Example."), 200);
  assert.equal(await status("wiki.example", `wiki.example:${port}`), 200);
  assert.equal(await status("localhost", "localhost"), 200);
  assert.equal(await status("bücher.example", "xn--bcher-kva.example"), 200);
  assert.equal(await status("2130706433", "127.0.0.1"), 200);
  for (const [host, allowed] of [
    ["wiki.example", "wiki.example:1"],
    ["a.wiki.example", "wiki.example"],
    ["wiki.example.evil.example", "wiki.example"],
    ["wiki.example", "127.0.0.1"],
    ["wiki.example", ""],
    ["wiki.example", "*"],
  ] as const)
    await assert.rejects(status(host, allowed), BlockedAddressError, `${host} by ${allowed}`);
});

test("an IPv6 address can be allowed with and without brackets and port", async () => {
  for (const allowed of ["::1", "[::1]", "[::1]:9", "[0::1]:9"]) {
    const failed = await get("http://[::1]:9/", { allowedPrivateHosts: [allowed] }).catch(
      (error: unknown) => error,
    );
    assert.ok(failed instanceof FetchFailedError, `${allowed}: ${failed}`);
    assert.equal(failed.reason, "connection");
  }
  await refusal("http://[::1]:9/", { allowedPrivateHosts: ["[::1]:8"] });
});

test("a name without addresses, and an unknown name, are reported as such", async () => {
  await assert.rejects(get("http://a.example/", { lookup: to() }), UnresolvedNameError);
  const unknown = async () => Promise.reject(new Error("ENOTFOUND"));
  await assert.rejects(
    get("http://a.example/", { lookup: unknown }),
    /The name a\.example could not be resolved/,
  );
});

test("a refusal that needs no look-up is known before one", () => {
  const objection = (url: string, allowed: string[] = []) => objectionToHost(new URL(url), allowed);
  assert.equal(objection("http://localhost:8080/"), "this machine itself");
  assert.equal(objection("http://a.localhost./"), "this machine itself");
  assert.equal(objection("http://127.1/"), "this machine itself");
  assert.equal(objection("http://metadata.google.internal/"), "a metadata service");
  assert.equal(objection("https://10.1.2.3/"), "private");
  assert.equal(objection("https://10.1.2.3/", ["10.1.2.3"]), undefined);
  assert.equal(objection("http://localhost:8080/", ["localhost:8081"]), "this machine itself");
  assert.equal(objection("https://example.com/"), undefined);
});
