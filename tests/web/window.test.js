import assert from "node:assert/strict";
import { test } from "node:test";
import { labelStep, layout } from "../../src/limelight/view/web/heatmap.js";
import { cellAt, isWhole, pan, placeAt, reveal, whole, zoomAt } from "../../src/limelight/view/web/window.js";

const [ROWS, COLUMNS] = [211, 307];
const BOX = { left: 31, top: 17, width: 614, height: 422 };

test("zooming keeps what is under the pointer under it", () => {
  const pixel = { x: 300, y: 201 };
  const before = placeAt(whole(ROWS, COLUMNS), BOX, pixel);
  const view = zoomAt(whole(ROWS, COLUMNS), 3, before, ROWS, COLUMNS);
  const after = placeAt(view, BOX, pixel);
  assert.ok(Math.abs(after.x - before.x) < 1e-9 && Math.abs(after.y - before.y) < 1e-9);
  const twice = placeAt(zoomAt(view, 1.7, after, ROWS, COLUMNS), BOX, pixel);
  assert.ok(Math.abs(twice.x - before.x) < 1e-9 && Math.abs(twice.y - before.y) < 1e-9);
  assert.ok(Math.abs(view.across - COLUMNS / 3) < 1e-9 && Math.abs(view.down - ROWS / 3) < 1e-9);
});

test("zooming in and out again ends at the whole, and never beyond", () => {
  let view = whole(ROWS, COLUMNS);
  for (let i = 0; i < 50; i += 1) view = zoomAt(view, 1.5, { x: 1, y: 200 }, ROWS, COLUMNS);
  assert.deepEqual([view.across, view.down], [6, 6]);
  assert.ok(!isWhole(view, ROWS, COLUMNS));
  for (let i = 0; i < 50; i += 1) view = zoomAt(view, 1 / 1.5, { x: 300, y: 3 }, ROWS, COLUMNS);
  assert.deepEqual(view, whole(ROWS, COLUMNS));
});

test("a map of one row can be zoomed along it", () => {
  const view = zoomAt(whole(1, COLUMNS), 4, { x: 100, y: 0.5 }, 1, COLUMNS);
  assert.equal(view.down, 1);
  assert.ok(view.across < COLUMNS / 3);
});

test("panning moves by what is asked and stops at the edge", () => {
  const view = { x: 10, y: 20, across: 50, down: 40 };
  assert.deepEqual(pan(view, 5, -3, ROWS, COLUMNS), { ...view, x: 15, y: 17 });
  assert.deepEqual(pan(view, -1000, 1000, ROWS, COLUMNS), { ...view, x: 0, y: ROWS - 40 });
});

test("a cell is revealed by the shortest way, one in sight by none", () => {
  const view = { x: 10, y: 20, across: 50, down: 40 };
  assert.deepEqual(reveal(view, { row: 30, column: 12 }, ROWS, COLUMNS), view);
  assert.deepEqual(reveal(view, { row: 60, column: 5 }, ROWS, COLUMNS), { ...view, x: 5, y: 21 });
});

test("pixels find their cells, and none beside the map", () => {
  const view = whole(ROWS, COLUMNS);
  assert.deepEqual(cellAt(view, BOX, { x: 31, y: 17 }, ROWS, COLUMNS), { row: 0, column: 0 });
  assert.deepEqual(cellAt(view, BOX, { x: 31 + 2 * 7 + 1, y: 17 + 2 * 5 + 1 }, ROWS, COLUMNS), {
    row: 5,
    column: 7,
  });
  assert.deepEqual(cellAt(view, BOX, { x: 644.9, y: 438.9 }, ROWS, COLUMNS), { row: 210, column: 306 });
  for (const pixel of [
    { x: 30, y: 100 },
    { x: 100, y: 16 },
    { x: 645, y: 100 },
    { x: 100, y: 439 },
  ]) {
    assert.equal(cellAt(view, BOX, pixel, ROWS, COLUMNS), null);
  }
});

test("a map fits into its room, small or large", () => {
  for (const [rows, columns, width] of [
    [1, 64, 300],
    [17, 17, 700],
    [512, 512, 320],
    [300, 3, 320],
    [2, 512, 1600],
  ]) {
    const found = layout({ width, tallest: 640, rows, columns, left: 60, top: 70 });
    assert.ok(found.width <= width && found.height <= 650, `${rows} × ${columns}`);
    assert.ok(found.box.width > 0 && found.box.height > 0);
  }
});

test("labels are thinned where they have no room", () => {
  assert.equal(labelStep(400, 20), 1);
  assert.equal(labelStep(512, 512), 13);
});
