import assert from "node:assert/strict";
import { test } from "node:test";
import {
  THRESHOLD,
  indexAt,
  linesOf,
  opacity,
  rowHeight,
  sharesOf,
  thickness,
  visibleLines,
  yOf,
} from "../../src/limelight/view/web/lines.js";
import { even, oneHot, weightsOf } from "./records.js";

const ROWS = [
  [0.7, 0.29, 0.01],
  [0.2, 0.2, 0.6],
];

test("each weight above the threshold has a line, the strongest last", async () => {
  const weights = await weightsOf(ROWS, "target", "source");
  const lines = linesOf(weights, [0]);
  assert.equal(lines.length, 5);
  assert.ok(!lines.some(({ row, column }) => row === 0 && column === 2));
  assert.deepEqual([lines.at(-1).row, lines.at(-1).column], [0, 0]);
  assert.equal(linesOf(weights, [0], null, 0.001).length, 6);
  assert.ok(lines.every(({ weight }) => weight >= THRESHOLD));
});

test("hidden heads have no lines", async () => {
  assert.deepEqual(linesOf(await weightsOf(ROWS, "target", "source"), []), []);
});

test("a focused token has only its own lines, on either side", async () => {
  const weights = await weightsOf(ROWS, "target", "source");
  assert.deepEqual(
    linesOf(weights, [0], { side: "queries", index: 1 }).map(({ row }) => row),
    [1, 1, 1],
  );
  assert.deepEqual(
    linesOf(weights, [0], { side: "keys", index: 0 }).map(({ row }) => row),
    [1, 0],
  );
});

test("lines with both ends outside the view are left out", async () => {
  const weights = await weightsOf(oneHot(101, 101, (row) => (row === 3 ? 90 : row)));
  const lines = linesOf(weights, [0]);
  assert.deepEqual(
    visibleLines(lines, weights, [80, 95])
      .map(({ row }) => row)
      .sort((a, b) => a - b)[0],
    3,
  );
  assert.equal(visibleLines(lines, weights, [80, 95]).length, 17);
  assert.equal(visibleLines(lines, weights, [0, 101]).length, 101);
});

test("of too many lines only the strongest are drawn", async () => {
  const weights = await weightsOf(even(211, 31), "target", "source");
  const lines = linesOf(weights, [0]);
  assert.ok(lines.length > 6000);
  assert.deepEqual(visibleLines(lines, weights, [0, 211]), lines.slice(-1500));
});

test("the shorter side is centred, and indexAt inverts yOf", () => {
  assert.equal(yOf(0, 1, 7, 10), 35);
  assert.equal(yOf(0, 7, 1, 10), 5);
  for (let index = 0; index < 3; index += 1)
    assert.equal(indexAt(yOf(index, 3, 11, 13), 3, 11, 13), index);
  assert.equal(indexAt(1, 3, 11, 13), null);
  assert.equal(indexAt(142, 3, 11, 13), null);
});

test("a stronger line is thicker and more opaque, and rows have a readable height", () => {
  assert.ok(thickness(0.5) > thickness(0.1) && opacity(0.5) > opacity(0.1));
  assert.ok(opacity(1) <= 1);
  assert.ok(rowHeight(5) <= 26 && rowHeight(512) >= 15);
});

test("shares are the weights of one token on the other side", async () => {
  const weights = await weightsOf(ROWS, "target", "source");
  const near = (found, expected) =>
    expected.forEach((share, i) => assert.ok(Math.abs(found[i] - share) < 0.01));
  near(sharesOf(weights, [0], { side: "queries", index: 0 }), ROWS[0]);
  near(sharesOf(weights, [0], { side: "keys", index: 2 }), [0.01, 0.6]);
  assert.deepEqual([...sharesOf(weights, [], { side: "keys", index: 2 })], [0, 0]);
});
