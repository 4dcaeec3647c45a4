import assert from "node:assert/strict";
import { test } from "node:test";
import {
  fetchRecord,
  makeFetcher,
  makeRequester,
  readResponse,
  retryDelay,
} from "../../src/limelight/view/web/requests.js";

// A requester whose responses arrive when a test resolves them.
function makeScenario(pause = 5) {
  const waiting = new Map();
  const log = { records: [], errors: [], busy: [], signals: new Map() };
  const requester = makeRequester({
    send: (input, signal) => {
      log.signals.set(input, signal);
      return new Promise((resolve, reject) => waiting.set(input, { resolve, reject }));
    },
    onRecord: (record) => log.records.push(record),
    onError: (text) => log.errors.push(text),
    onBusy: (isBusy) => log.busy.push(isBusy),
    pause,
  });
  return { requester, waiting, log };
}

const settle = (milliseconds = 0) => new Promise((resolve) => setTimeout(resolve, milliseconds));

test("a late response to an older request is dropped", async () => {
  const { requester, waiting, log } = makeScenario();
  const old = requester.send("old");
  requester.send("new");
  waiting.get("new").resolve("response to new");
  await settle();
  waiting.get("old").resolve("response to old");
  assert.equal(await old, undefined);
  assert.deepEqual(log.records, ["response to new"]);
});

test("responses that arrive in order are all shown", async () => {
  const { requester, waiting, log } = makeScenario();
  const one = requester.send("one");
  waiting.get("one").resolve("first");
  assert.equal(await one, "first");
  const two = requester.send("two");
  waiting.get("two").resolve("second");
  assert.equal(await two, "second");
  assert.deepEqual(log.records, ["first", "second"]);
});

test("the error of an older request is ignored, the error of the newest is shown", async () => {
  const { requester, waiting, log } = makeScenario();
  requester.send("old");
  requester.send("new");
  waiting.get("old").reject(new Error("aborted"));
  await settle();
  assert.deepEqual(log.errors, []);
  waiting.get("new").reject(new Error("too long"));
  await settle();
  assert.deepEqual(log.errors, ["too long"]);
  assert.equal(log.busy.at(-1), false);
});

test("an older request is aborted, the newest is not", () => {
  const { requester, log } = makeScenario();
  requester.send("old");
  requester.send("new");
  assert.ok(log.signals.get("old").aborted);
  assert.ok(!log.signals.get("new").aborted);
});

test("during typing only the last text is sent", async () => {
  const { requester, waiting, log } = makeScenario(20);
  for (const text of ["h", "he", "hel"]) requester.sendLater(text);
  assert.equal(waiting.size, 0);
  await settle(60);
  assert.deepEqual([...waiting.keys()], ["hel"]);
  waiting.get("hel").resolve("hello");
  await settle();
  assert.deepEqual(log.records, ["hello"]);
});

test("a response that arrives during typing is dropped", async () => {
  const { requester, waiting, log } = makeScenario(20);
  requester.send("he");
  requester.sendLater("hel");
  waiting.get("he").resolve("response to he");
  await settle();
  assert.deepEqual(log.records, []);
  requester.cancel();
  await settle(60);
  assert.ok(!waiting.has("hel"));
  assert.equal(log.busy.at(-1), false);
});

function makeServer(...responses) {
  const requests = [];
  const waits = [];
  const fetch = async (address, request) => {
    requests.push({ address, ...request });
    const next = responses.shift();
    if (next instanceof Error) throw next;
    return new Response(next.body, { status: next.status, headers: next.headers });
  };
  return { requests, waits, tools: { fetch, wait: async (seconds) => waits.push(seconds) } };
}

const GOOD = { status: 200, body: '{"answer": "yes"}' };
const BUSY = { status: 503, body: '{"error": "busy"}', headers: { "Retry-After": "2" } };

test("text is sent as JSON, a file as the raw body", async () => {
  const server = makeServer(GOOD, GOOD, GOOD);
  assert.deepEqual(await fetchRecord("a <b>", undefined, server.tools), { answer: "yes" });
  const file = new Blob(["pixels"], { type: "image/png" });
  await fetchRecord(file, undefined, server.tools);
  assert.equal(server.requests[0].body, '{"given":"a <b>"}');
  assert.equal(server.requests[0].headers["Content-Type"], "application/json");
  assert.equal(server.requests[1].body, file);
  assert.equal(server.requests[1].headers["Content-Type"], "image/png");
  await fetchRecord({ given: "", tokens: [3, 5], seed: 7 }, undefined, server.tools);
  assert.equal(server.requests[2].body, '{"given":"","tokens":[3,5],"seed":7}');
  assert.equal(server.requests[2].headers["Content-Type"], "application/json");
});

test("changes are sent in the address, for texts and files", async () => {
  const server = makeServer(GOOD);
  await fetchRecord("x", undefined, { ...server.tools, changes: [{ name: "a.b", head: 1 }] });
  assert.equal(server.requests[0].address, `api/record?changes=${encodeURIComponent('[{"name":"a.b","head":1}]')}`);
});

test("a changed record has the one without changes as its base, which is requested once per input", async () => {
  const sent = [];
  let changes = [];
  const fetcher = makeFetcher(
    () => changes,
    async (input, signal, { changes: named = [] } = {}) => {
      sent.push([input, named.length]);
      return { input, count: named.length, maps: [{ name: "first" }] };
    },
  );
  assert.equal((await fetcher("a")).base, undefined);
  changes = [{ map: 0, head: 1 }];
  const changed = await fetcher("a");
  assert.deepEqual([changed.count, changed.base.count], [1, 0]);
  changes = [...changes, { map: 0, head: 2 }];
  assert.equal((await fetcher("a")).base.count, 0);
  await fetcher("b");
  assert.deepEqual(sent, [["a", 0], ["a", 1], ["a", 2], ["b", 0], ["b", 2]]);
  changes = [{ map: 7, head: 0 }]; // of another model
  assert.equal((await fetcher("b")).base, undefined);
});

test("a token that is sampled is requested once, with the changes", async () => {
  const sent = [];
  const send = async (input, signal, { changes = [] } = {}) => {
    sent.push([input.tokens.length, changes.length]);
    return { maps: [{ name: "first" }] };
  };
  const fetcher = makeFetcher(() => [{ map: 0, head: 0 }], send);
  await fetcher({ given: "", tokens: [] });
  await fetcher({ given: "", tokens: [5], temperature: 1, seed: 2 });
  assert.deepEqual(sent, [[0, 0], [0, 1], [1, 1]]);
});

test("a busy server gets one retry, after the time in Retry-After", async () => {
  const patient = makeServer(BUSY, GOOD);
  assert.deepEqual(await fetchRecord("x", undefined, patient.tools), { answer: "yes" });
  assert.deepEqual(patient.waits, [2]);
  const busy = makeServer(BUSY, BUSY, GOOD);
  await assert.rejects(fetchRecord("x", undefined, busy.tools), /busy/);
  assert.equal(busy.requests.length, 2);
});

test("an error response is not retried, and its reason is shown", async () => {
  const server = makeServer({ status: 422, body: '{"error": "too long"}' }, GOOD);
  await assert.rejects(fetchRecord("x", undefined, server.tools), /^Error: too long$/);
  assert.equal(server.requests.length, 1);
});

test("unreachable servers and invalid responses have their own messages", async () => {
  await assert.rejects(
    fetchRecord("x", undefined, makeServer(new TypeError("failed to fetch")).tools),
    /cannot be reached/,
  );
  await assert.rejects(
    fetchRecord("x", undefined, makeServer({ status: 200, body: "<html>" }).tools),
    /not JSON/,
  );
  await assert.rejects(readResponse(new Response('{"detail": 1}', { status: 400 })), /status 400/);
  await assert.rejects(readResponse(new Response("null", { status: 500 })), /status 500/);
});

test("the retry delay is limited", () => {
  assert.deepEqual(["3", "0", "9999", null, "soon", "-1"].map(retryDelay), [3, 0, 30, 1, 1, 1]);
});
