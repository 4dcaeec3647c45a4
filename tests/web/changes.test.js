import assert from "node:assert/strict";
import { test } from "node:test";
import { effect } from "../../src/limelight/view/web/change_bar.js";
import {
  decodeChanges,
  describeChange,
  encodeChanges,
  isOff,
  namedChanges,
  shareMoved,
  storedVariant,
  toggle,
} from "../../src/limelight/view/web/changes.js";
import { ALL } from "../../src/limelight/view/web/decode.js";
import { even, makeRecord, oneHot, weightsOf } from "./records.js";

const HEAD = { map: 1, head: 0 };
const CELL = { map: 0, head: 1, query: 2, key: 0 };
const record = makeRecord(
  { source: ["a", "b", "c"] },
  [
    ["source", "source", 2],
    ["source", "source", 1],
  ],
  [[even(3, 3), even(3, 3)], [even(3, 3)]],
);

test("a second click takes a change back, and other changes stay", () => {
  assert.deepEqual(toggle([], HEAD), [HEAD]);
  assert.deepEqual(toggle([HEAD, CELL], { ...HEAD }), [CELL]);
  assert.deepEqual(toggle([CELL], { ...CELL, key: 1 }), [CELL, { ...CELL, key: 1 }]);
});

test("changes in an address are read as they were written", () => {
  for (const changes of [[], [HEAD], [HEAD, CELL, { map: 2, head: ALL }]]) {
    assert.deepEqual(decodeChanges(encodeChanges(changes)), changes);
  }
  assert.equal(encodeChanges([HEAD, CELL]), "1.0,0.1.2.0");
});

test("a head is off alone or with all heads, but not because of a cell", () => {
  assert.equal(isOff([HEAD], 1, 0), true);
  assert.equal(isOff([HEAD], 0, 0), false);
  assert.equal(isOff([{ map: 0, head: ALL }], 0, 1), true);
  assert.equal(isOff([CELL], 0, 1), false);
});

test("the server gets names instead of numbers", () => {
  assert.deepEqual(namedChanges([HEAD, CELL, { map: 0, head: ALL }, { map: 9, head: 0 }], record), [
    { name: "blocks.1", head: 0 },
    { name: "blocks.0", head: 1, query: 2, key: 0 },
    { name: "blocks.0" },
  ]);
});

test("changes are described with the part, the layer and the tokens", () => {
  assert.equal(describeChange(HEAD, record), "encoder, layer 1, head 0 off");
  assert.equal(describeChange(CELL, record), "encoder, layer 0, head 1: “c” ↛ “a”");
  assert.equal(describeChange({ map: 0, head: ALL }, record), "encoder, layer 0, all heads off");
  assert.equal(describeChange({ map: 9, head: 0 }, record), "a head of another model");
});

test("a saved record has the results without single heads", () => {
  const saved = { ...record, variants: [{ ...HEAD, record: { answer: "other", probability: 0.1 } }] };
  assert.equal(storedVariant(saved, [HEAD]).answer, "other");
  assert.deepEqual(storedVariant(saved, [HEAD]).maps, record.maps);
  for (const changes of [[], [{ map: 0, head: 0 }], [HEAD, HEAD], [CELL]]) {
    assert.equal(storedVariant(saved, changes), undefined);
  }
  assert.equal(storedVariant(record, [HEAD]), undefined);
});

test("the moved share is 0 for equal weights, 1 for disjoint ones, and half of it for half of the rows", async () => {
  const [same, other] = [await weightsOf(oneHot(4, 4, (row) => row)), await weightsOf(oneHot(4, 4, (row) => 3 - row))];
  const half = await weightsOf(oneHot(4, 4, (row) => (row < 2 ? row : 3 - row)));
  assert.equal(shareMoved(same, same, 0), 0);
  assert.equal(shareMoved(same, other, 0), 1);
  assert.equal(shareMoved(same, half, 0), 0.5);
  assert.equal(shareMoved(same, await weightsOf(even(3, 3)), 0), null);
  assert.equal(shareMoved(same, null, 0), null);
});

test("the effect names the answers and the probabilities", () => {
  const base = { record: { answer: "cat", probability: 0.9 } };
  const now = (answer, probability) => effect({ base, record: { answer, probability } });
  assert.equal(now("cat", 0.4), "The prediction is still “cat”: 90.0 % before, 40.0 % now.");
  assert.equal(now("dog", 0.6), "The prediction changed from “cat” to “dog”: 90.0 % before, now 60.0 %.");
  assert.equal(now("dog", null), "The prediction changed from “cat” to “dog”.");
});
