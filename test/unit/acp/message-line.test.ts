import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { failure, readLine, toLine } from "../../../src/acp/wire/wire.ts";

const MAX = 100;
const line = (text: string) => ({ text, sizeBytes: text.length });
const long = (head: string) => readLine({ problem: "long", head }, MAX);
const error = { code: -32_600, message: "The message exceeds 100 bytes, the limit of acp.max_line_bytes." };

test("a message is written as one line without Unicode line separators and reads back unchanged", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.string({ unit: "binary" }), (value, text) => {
      const params = { value, text: `${text}\u2028\u2029\ud800\0` };
      const written = toLine({ jsonrpc: "2.0", method: "m", params } as never);
      assert.doesNotMatch(written, /[\n\r\u2028\u2029]/);
      assert.deepEqual(readLine(line(written), MAX), { message: JSON.parse(written) });
      assert.deepEqual((JSON.parse(written) as { params: { text: string } }).params.text, params.text);
    }),
  );
});

test("a blank line is ignored", () => {
  for (const text of ["", " ", "\r", "\t \r", "\u00a0"]) assert.equal(readLine(line(text), MAX), undefined);
});

test("a malformed response gets no error response", () => {
  for (const text of ['{"id":1,"result":{}}', '{"id":1,"error":7}', '{"jsonrpc":"2.0","result":1}']) {
    assert.deepEqual(readLine(line(text), MAX), { message: JSON.parse(text) });
  }
});

test("an overlong request gets an error with its id", () => {
  const answer = { answer: { jsonrpc: "2.0", id: 7, error } };
  assert.deepEqual(
    long('{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"prompt":[{"te'),
    answer,
  );
  assert.deepEqual(long(' { "method" : "x" , "id" : 7 , "params" : {'), answer);
  assert.deepEqual(long('{"id":"a\\"b","method":"x","params":["'), {
    answer: { jsonrpc: "2.0", id: 'a"b', error },
  });
});

test("an overlong response fails our request", () => {
  const read = long('{"jsonrpc":"2.0","id":3,"result":{"content":"xxxxx');
  assert.deepEqual(read, { message: { jsonrpc: "2.0", id: 3, error } });
});

test("an overlong line without an id gets an error without an id", () => {
  const answer = { answer: failure(null, error.code, error.message) };
  for (const head of [
    "xxxx",
    '{"jsonrpc":"2.0","method":"session/cancel","params":{"id":3,"method":"x',
    '{"params":{"id":3},"id":7,"method":"x"',
    '[{"id":3,"method":"x"',
    '{"id":null,"method":"x"',
    '{"id":7',
  ]) {
    assert.deepEqual(long(head), answer, head);
  }
});
