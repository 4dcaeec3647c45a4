import assert from "node:assert/strict";
import { test } from "node:test";
import { attendsToPatches, movePatch, patchAt, patchWeights } from "../../src/limelight/view/web/patches.js";
import { weightsOf } from "./records.js";

const GRID = { rows: 2, columns: 3, first: 1 };
const LINES = Array.from({ length: 7 }, (_, row) =>
  Array.from({ length: 7 }, (_, i) => (i === row ? 0.4 : 0.1)),
);

function near(found, expected) {
  assert.equal(found.length, expected.length);
  expected.forEach((weight, i) => assert.ok(Math.abs(found[i] - weight) < 0.005, `${found[i]} at ${i}`));
}

test("without a query, the weights of the class token are shown, without its own weight", async () => {
  near(patchWeights(await weightsOf(LINES), 0, null, GRID), LINES[0].slice(1));
});

test("with a query, the weights of this patch are shown", async () => {
  near(patchWeights(await weightsOf(LINES), 0, 5, GRID), LINES[5].slice(1));
});

test("without a class token, the mean over all patches is shown", async () => {
  const lines = [
    [0.8, 0.2],
    [0.4, 0.6],
  ];
  near(patchWeights(await weightsOf(lines), 0, null, { rows: 1, columns: 2, first: 0 }), [0.6, 0.4]);
});

test("pooling has one row, whichever patch is selected", async () => {
  const weights = await weightsOf([[0.1, 0.2, 0.3, 0.4]], "question", "source");
  const grid = { rows: 2, columns: 2, first: 0 };
  assert.ok(attendsToPatches(weights, grid));
  near(patchWeights(weights, 0, 3, grid), [0.1, 0.2, 0.3, 0.4]);
});

test("a map of another size is not a map of patches", async () => {
  assert.ok(attendsToPatches(await weightsOf(LINES), GRID));
  assert.ok(!attendsToPatches(await weightsOf(LINES), { ...GRID, first: 0 }));
});

test("points are mapped to patches row by row, and to null outside the image", () => {
  assert.equal(patchAt(0, 0, GRID), 0);
  assert.equal(patchAt(0.99, 0.2, GRID), 2);
  assert.equal(patchAt(0.4, 0.6, GRID), 4);
  assert.deepEqual(
    [patchAt(1, 0, GRID), patchAt(-0.01, 0, GRID), patchAt(0, 1, GRID), patchAt(NaN, 0, GRID)],
    [null, null, null, null],
  );
});

test("arrow keys move from patch to patch and stop at the border", () => {
  assert.equal(movePatch(0, "ArrowRight", GRID), 1);
  assert.equal(movePatch(2, "ArrowRight", GRID), 2);
  assert.equal(movePatch(1, "ArrowDown", GRID), 4);
  assert.equal(movePatch(4, "ArrowDown", GRID), 4);
  assert.equal(movePatch(4, "ArrowUp", GRID), 1);
});
