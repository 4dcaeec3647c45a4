import assert from "node:assert/strict";
import { test } from "node:test";
import { look, makeAsker, patience, read } from "../../src/limelight/view/web/asking.js";

// A server that answers when it is told to.
function makeScene(pause = 5) {
  const waiting = new Map();
  const seen = { records: [], errors: [], busy: [], signals: new Map() };
  const asker = makeAsker({
    send: (question, signal) => {
      seen.signals.set(question, signal);
      return new Promise((resolve, reject) => waiting.set(question, { resolve, reject }));
    },
    onRecord: (record) => seen.records.push(record),
    onError: (text) => seen.errors.push(text),
    onBusy: (isBusy) => seen.busy.push(isBusy),
    pause,
  });
  return { asker, waiting, seen };
}

const settle = (milliseconds = 0) => new Promise((resolve) => setTimeout(resolve, milliseconds));

test("an answer that comes late for an older question is dropped", async () => {
  const { asker, waiting, seen } = makeScene();
  asker.now("old");
  asker.now("new");
  waiting.get("new").resolve("answer to new");
  await settle();
  waiting.get("old").resolve("answer to old");
  await settle();
  assert.deepEqual(seen.records, ["answer to new"]);
});

test("answers in turn are all shown", async () => {
  const { asker, waiting, seen } = makeScene();
  asker.now("one");
  waiting.get("one").resolve("first");
  await settle();
  asker.now("two");
  waiting.get("two").resolve("second");
  await settle();
  assert.deepEqual(seen.records, ["first", "second"]);
});

test("a late failure says nothing, a timely one is told", async () => {
  const { asker, waiting, seen } = makeScene();
  asker.now("old");
  asker.now("new");
  waiting.get("old").reject(new Error("aborted"));
  await settle();
  assert.deepEqual(seen.errors, []);
  waiting.get("new").reject(new Error("too long"));
  await settle();
  assert.deepEqual(seen.errors, ["too long"]);
  assert.equal(seen.busy.at(-1), false);
});

test("an older question is given up, the newest is not", () => {
  const { asker, seen } = makeScene();
  asker.now("old");
  asker.now("new");
  assert.ok(seen.signals.get("old").aborted);
  assert.ok(!seen.signals.get("new").aborted);
});

test("while one types only the last text is asked for", async () => {
  const { asker, waiting, seen } = makeScene(20);
  for (const text of ["h", "he", "hel"]) asker.soon(text);
  assert.equal(waiting.size, 0);
  await settle(60);
  assert.deepEqual([...waiting.keys()], ["hel"]);
  waiting.get("hel").resolve("hello");
  await settle();
  assert.deepEqual(seen.records, ["hello"]);
});

test("an answer that comes while one types on is dropped", async () => {
  const { asker, waiting, seen } = makeScene(20);
  asker.now("he");
  asker.soon("hel");
  waiting.get("he").resolve("answer to he");
  await settle();
  assert.deepEqual(seen.records, []);
  asker.stop();
  await settle(60);
  assert.ok(!waiting.has("hel"));
  assert.equal(seen.busy.at(-1), false);
});

function makeServer(...answers) {
  const requests = [];
  const waits = [];
  const fetch = async (address, request) => {
    requests.push({ address, ...request });
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return new Response(answer.body, { status: answer.status, headers: answer.headers });
  };
  return { requests, waits, tools: { fetch, wait: async (seconds) => waits.push(seconds) } };
}

const GOOD = { status: 200, body: '{"answer": "yes"}' };
const BUSY = { status: 503, body: '{"error": "busy"}', headers: { "Retry-After": "2" } };

test("text is sent as JSON, a file as it is", async () => {
  const server = makeServer(GOOD, GOOD);
  assert.deepEqual(await look("a <b>", undefined, server.tools), { answer: "yes" });
  const file = new Blob(["pixels"], { type: "image/png" });
  await look(file, undefined, server.tools);
  assert.equal(server.requests[0].body, '{"given":"a <b>"}');
  assert.equal(server.requests[0].headers["Content-Type"], "application/json");
  assert.equal(server.requests[1].body, file);
  assert.equal(server.requests[1].headers["Content-Type"], "image/png");
});

test("a busy server is asked once more, after as long as it wants, and not twice", async () => {
  const patient = makeServer(BUSY, GOOD);
  assert.deepEqual(await look("x", undefined, patient.tools), { answer: "yes" });
  assert.deepEqual(patient.waits, [2]);
  const busy = makeServer(BUSY, BUSY, GOOD);
  await assert.rejects(look("x", undefined, busy.tools), /busy/);
  assert.equal(busy.requests.length, 2);
});

test("a refusal is not repeated, and its words are told", async () => {
  const server = makeServer({ status: 422, body: '{"error": "too long"}' }, GOOD);
  await assert.rejects(look("x", undefined, server.tools), /^Error: too long$/);
  assert.equal(server.requests.length, 1);
});

test("a server that is gone or talks nonsense is named in words", async () => {
  await assert.rejects(
    look("x", undefined, makeServer(new TypeError("failed to fetch")).tools),
    /cannot be reached/,
  );
  await assert.rejects(
    look("x", undefined, makeServer({ status: 200, body: "<html>" }).tools),
    /without words/,
  );
  await assert.rejects(read(new Response('{"detail": 1}', { status: 400 })), /answered 400/);
  await assert.rejects(read(new Response("null", { status: 500 })), /answered 500/);
});

test("patience has limits", () => {
  assert.deepEqual(["3", "0", "9999", null, "soon", "-1"].map(patience), [3, 0, 30, 1, 1, 1]);
});
