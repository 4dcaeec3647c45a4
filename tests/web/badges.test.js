import assert from "node:assert/strict";
import { test } from "node:test";
import { badgesOf, choicesOf, entropy, inWords, sortHeads } from "../../src/limelight/view/web/badges.js";
import { ALL } from "../../src/limelight/view/web/decode.js";
import { even, oneHot, weightsOf } from "./records.js";

const SIZE = 7;

async function looks(rows, queries, keys) {
  return badgesOf(await weightsOf(rows, queries, keys), 0).looks.map(({ name }) => name);
}

test("a shifted identity looks at the previous, the next or itself", async () => {
  const within = (column) => Math.min(SIZE - 1, Math.max(0, column));
  assert.deepEqual(await looks(oneHot(SIZE, SIZE, (row) => within(row - 1))), ["previous"]);
  assert.deepEqual(await looks(oneHot(SIZE, SIZE, (row) => within(row + 1))), ["next"]);
  assert.deepEqual(await looks(oneHot(SIZE, SIZE, (row) => row)), ["itself"]);
});

test("a head that always looks at the first token says so", async () => {
  assert.deepEqual(await looks(oneHot(SIZE, SIZE, () => 0)), ["first"]);
});

test("an even head, a far one and half a habit have no badge", async () => {
  assert.deepEqual(await looks(even(SIZE, SIZE)), []);
  assert.deepEqual(await looks(oneHot(SIZE, SIZE, (row) => (row + 3) % SIZE)), []);
  const mixed = (part) =>
    oneHot(SIZE, SIZE, (row) => row).map((row) => row.map((one) => part * one + (1 - part) / SIZE));
  assert.deepEqual(await looks(mixed(0.38)), []);
  assert.deepEqual(await looks(mixed(0.46)), ["itself"]);
});

test("between two languages there is no previous", async () => {
  assert.deepEqual(
    await looks(
      oneHot(SIZE, SIZE, (row) => row),
      "target",
      "source",
    ),
    [],
  );
});

test("in a decoder the same index is the token just before", async () => {
  assert.deepEqual(
    await looks(
      oneHot(SIZE, SIZE, (row) => row),
      "target",
      "written",
    ),
    ["previous"],
  );
  assert.deepEqual(
    await looks(
      oneHot(SIZE, SIZE, (row) => Math.max(0, row - 1)),
      "target",
      "written",
    ),
    ["second last"],
  );
});

test("entropy is 0 where one is looked at and 1 where all are alike", async () => {
  assert.ok(badgesOf(await weightsOf(oneHot(SIZE, SIZE, (row) => row)), 0).entropy < 1e-6);
  assert.ok(Math.abs(badgesOf(await weightsOf(even(SIZE, SIZE)), 0).entropy - 1) < 0.01);
  assert.ok(Math.abs(entropy([0.5, 0.25, 0.25]) - 1.5 * Math.log(2)) < 1e-9);
});

test("behind a causal mask even rows count as even, though they see few", async () => {
  const causal = Array.from({ length: SIZE }, (_, row) =>
    Array.from({ length: SIZE }, (_, i) => (i <= row ? 1 / (row + 1) : 0)),
  );
  const weights = await weightsOf(causal);
  assert.deepEqual(choicesOf(weights), [1, 2, 3, 4, 5, 6, 7]);
  assert.ok(badgesOf(weights, 0).entropy > 0.98);
  assert.deepEqual(choicesOf(await weightsOf(even(SIZE, SIZE))), Array(SIZE).fill(SIZE));
});

test("one token alone has no choice, and no entropy", async () => {
  assert.deepEqual(badgesOf(await weightsOf([[1]]), 0), { entropy: 0, looks: [] });
});

test("the most focused head comes first, the mean is no head, and the model's order stays as it is", () => {
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

test("badges read well", () => {
  assert.equal(inWords({ entropy: 0.234, looks: [{ name: "next" }] }), "entropy 0.23, looks at next");
  assert.equal(inWords({ entropy: 1, looks: [] }), "entropy 1.00");
});
