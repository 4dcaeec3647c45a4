import assert from "node:assert/strict";
import { test } from "node:test";
import { Writer } from "../../src/limelight/view/web/writer.js";

const END = 99;

// A writer whose requests are answered one by one, by `answer`. A sampled token is the number of tokens + 10.
function makeWriter({ room = 5, endAt = Infinity } = {}) {
  const sent = [];
  const texts = [];
  let waiting = null;
  const send = (input) => {
    sent.push(input);
    waiting?.resolve(undefined); // superseded
    return new Promise((resolve) => {
      waiting = { input, resolve };
    });
  };
  const requester = { send, cancel: () => waiting?.resolve(undefined) };
  const writer = new Writer({
    requester,
    temperature: () => 0.7,
    onAdded: (record) => texts.push(record.given),
    onChange: () => {},
    wait: () => Promise.resolve(),
    seed: () => 17,
  });
  const answer = async () => {
    const { input, resolve } = waiting;
    const { given, tokens = [], temperature } = input;
    const ended = tokens.length + 1 >= endAt;
    const sampled = temperature === undefined ? [] : [ended ? END : tokens.length + 10];
    const all = [...tokens, ...sampled];
    const continuation = { tokens: all, room: room - all.length, ended: all.at(-1) === END };
    const record = { given: given + all.join(""), continuation };
    writer.received(record);
    resolve(record);
    await new Promise((done) => setImmediate(done));
  };
  return { writer, sent, texts, answer, send };
}

async function typed(options) {
  const made = makeWriter(options);
  made.writer.type("ab", made.send);
  await made.answer();
  return made;
}

test("tokens are added, chosen and removed by their ids, after the typed text", async () => {
  const { writer, sent, texts, answer } = await typed();
  assert.deepEqual(writer.can, { add: true, undo: false });
  writer.next();
  await answer();
  writer.choose(3);
  await answer();
  writer.undo();
  await answer();
  assert.deepEqual(sent.slice(1), [
    { given: "ab", tokens: [], temperature: 0.7, seed: 17 },
    { given: "ab", tokens: [10, 3] },
    { given: "ab", tokens: [10] },
  ]);
  assert.deepEqual(texts, ["ab10", "ab103", "ab10"]);
  assert.deepEqual(writer.can, { add: true, undo: true });
});

test("an edited text is a new text: nothing that was added before is removed by undo", async () => {
  const { writer, sent, texts, answer, send } = await typed();
  writer.next();
  await answer();
  writer.type("ab10c", send);
  assert.deepEqual(writer.can.undo, false);
  assert.equal(writer.undo(), null);
  await answer();
  assert.deepEqual(sent.at(-1), { given: "ab10c" });
  assert.deepEqual(texts, ["ab10"]); // the text of the field is the user's own
});

test("a click before the last one is answered does nothing", async () => {
  const { writer, sent, answer } = await typed();
  writer.next();
  assert.equal(await writer.next(), null);
  await answer();
  assert.equal(sent.length, 2);
  assert.deepEqual(writer.tokens, [10]);
});

test("typing drops the token that has not arrived", async () => {
  const { writer, texts, answer, send } = await typed();
  writer.next();
  writer.type("x", send);
  await answer();
  assert.deepEqual([writer.given, writer.tokens, texts], ["x", [], []]);
  writer.next();
  await answer();
  assert.deepEqual(texts, ["x10"]);
});

async function generated(options, answers) {
  const made = await typed(options);
  const run = made.writer.generate();
  for (let i = 0; i < answers; i += 1) {
    assert.ok(made.writer.isRunning);
    await made.answer();
  }
  return { ...made, run };
}

test("text is generated until the context is full", async () => {
  const { writer, run } = await generated({ room: 3 }, 3);
  await run;
  assert.deepEqual([writer.tokens, writer.can.add, writer.isRunning], [[10, 11, 12], false, false]);
  assert.equal(writer.choose(3), null);
});

test("text is generated until the document ends", async () => {
  const { writer, run } = await generated({ endAt: 2 }, 2);
  await run;
  assert.deepEqual([writer.tokens, writer.can.add, writer.isRunning], [[10, END], true, false]);
});

test("text is generated until it is stopped; the token that is under way is dropped", async () => {
  const { writer, run, sent, texts } = await generated({}, 2);
  assert.ok(writer.isRunning);
  writer.stop();
  assert.ok(!writer.isRunning);
  await run;
  assert.deepEqual([writer.tokens, texts.length, sent.length], [[10, 11], 2, 4]);
});

test("undo stops the generation", async () => {
  const { writer, run, answer } = await generated({}, 2);
  writer.undo();
  await answer();
  await run;
  assert.deepEqual([writer.tokens, writer.isRunning], [[10], false]);
});

test("a failed request ends the generation and leaves the text as it was", async () => {
  const { writer, run } = await generated({}, 2);
  writer.requester.cancel(); // as if the server had failed
  await run;
  assert.deepEqual([writer.tokens, writer.isRunning], [[10, 11], false]);
});
