import assert from "node:assert/strict";
import { test } from "node:test";
import {
  allowedKeys,
  badgesOf,
  describeBadges,
  entropy,
  sortHeads,
} from "../../src/limelight/view/web/badges.js";
import { ALL } from "../../src/limelight/view/web/decode.js";
import { even, oneHot, weightsOf } from "./records.js";

const SIZE = 7;

async function patterns(rows, queries, keys) {
  return badgesOf(await weightsOf(rows, queries, keys), 0).patterns.map(({ name }) => name);
}

test("a shifted identity attends to the previous token, the next or itself", async () => {
  const within = (column) => Math.min(SIZE - 1, Math.max(0, column));
  assert.deepEqual(await patterns(oneHot(SIZE, SIZE, (row) => within(row - 1))), ["previous"]);
  assert.deepEqual(await patterns(oneHot(SIZE, SIZE, (row) => within(row + 1))), ["next"]);
  assert.deepEqual(await patterns(oneHot(SIZE, SIZE, (row) => row)), ["itself"]);
});

test("a head that always attends to the first token has the badge first", async () => {
  assert.deepEqual(await patterns(oneHot(SIZE, SIZE, () => 0)), ["first"]);
});

test("uniform, distant and weak patterns have no badge", async () => {
  assert.deepEqual(await patterns(even(SIZE, SIZE)), []);
  assert.deepEqual(await patterns(oneHot(SIZE, SIZE, (row) => (row + 3) % SIZE)), []);
  const mixed = (part) =>
    oneHot(SIZE, SIZE, (row) => row).map((row) => row.map((one) => part * one + (1 - part) / SIZE));
  assert.deepEqual(await patterns(mixed(0.38)), []);
  assert.deepEqual(await patterns(mixed(0.46)), ["itself"]);
});

test("cross-attention has no previous token", async () => {
  assert.deepEqual(
    await patterns(
      oneHot(SIZE, SIZE, (row) => row),
      "target",
      "source",
    ),
    [],
  );
});

test("in a decoder the same index is the previous token", async () => {
  assert.deepEqual(
    await patterns(
      oneHot(SIZE, SIZE, (row) => row),
      "target",
      "written",
    ),
    ["previous"],
  );
  assert.deepEqual(
    await patterns(
      oneHot(SIZE, SIZE, (row) => Math.max(0, row - 1)),
      "target",
      "written",
    ),
    ["second to last"],
  );
});

test("entropy is 0 for a single token and 1 for uniform weights", async () => {
  assert.ok(badgesOf(await weightsOf(oneHot(SIZE, SIZE, (row) => row)), 0).entropy < 1e-6);
  assert.ok(Math.abs(badgesOf(await weightsOf(even(SIZE, SIZE)), 0).entropy - 1) < 0.01);
  assert.ok(Math.abs(entropy([0.5, 0.25, 0.25]) - 1.5 * Math.log(2)) < 1e-9);
});

test("under a causal mask, uniform weights over the allowed keys have entropy 1", async () => {
  const causal = Array.from({ length: SIZE }, (_, row) =>
    Array.from({ length: SIZE }, (_, i) => (i <= row ? 1 / (row + 1) : 0)),
  );
  const weights = await weightsOf(causal);
  assert.deepEqual(allowedKeys(weights), [1, 2, 3, 4, 5, 6, 7]);
  assert.ok(badgesOf(weights, 0).entropy > 0.98);
  assert.deepEqual(allowedKeys(await weightsOf(even(SIZE, SIZE))), Array(SIZE).fill(SIZE));
});

test("a single token has entropy 0", async () => {
  assert.deepEqual(badgesOf(await weightsOf([[1]]), 0), { entropy: 0, patterns: [] });
});

test("heads are sorted by entropy without the mean, or stay in the order of the model", () => {
  const heads = [
    { head: ALL, badges: { entropy: 0.1 } },
    { head: 0, badges: { entropy: 0.9 } },
    { head: 1, badges: { entropy: 0.2 } },
  ];
  assert.deepEqual(
    sortHeads(heads, "focused").map(({ head }) => head),
    [1, 0],
  );
  assert.deepEqual(
    sortHeads(heads, "model").map(({ head }) => head),
    [ALL, 0, 1],
  );
});

test("badges are described in words", () => {
  const badges = { entropy: 0.234, patterns: [{ name: "next" }] };
  assert.equal(describeBadges(badges), "entropy 0.23, attends mostly to: next");
  assert.equal(describeBadges({ entropy: 1, patterns: [] }), "entropy 1.00");
});
