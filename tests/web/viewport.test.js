import assert from "node:assert/strict";
import { test } from "node:test";
import { labelStep, layout } from "../../src/limelight/view/web/heatmap.js";
import {
  cellAt,
  fullView,
  isFullView,
  pan,
  pointAt,
  reveal,
  zoomAt,
} from "../../src/limelight/view/web/viewport.js";

const [ROWS, COLUMNS] = [211, 307];
const BOX = { left: 31, top: 17, width: 614, height: 422 };

test("zooming keeps the point under the pointer in place", () => {
  const pixel = { x: 300, y: 201 };
  const before = pointAt(fullView(ROWS, COLUMNS), BOX, pixel);
  const view = zoomAt(fullView(ROWS, COLUMNS), 3, before, ROWS, COLUMNS);
  const after = pointAt(view, BOX, pixel);
  assert.ok(Math.abs(after.x - before.x) < 1e-9 && Math.abs(after.y - before.y) < 1e-9);
  const twice = pointAt(zoomAt(view, 1.7, after, ROWS, COLUMNS), BOX, pixel);
  assert.ok(Math.abs(twice.x - before.x) < 1e-9 && Math.abs(twice.y - before.y) < 1e-9);
  assert.ok(Math.abs(view.width - COLUMNS / 3) < 1e-9 && Math.abs(view.height - ROWS / 3) < 1e-9);
});

test("zooming in and out again ends at the full view, and never beyond", () => {
  let view = fullView(ROWS, COLUMNS);
  for (let i = 0; i < 50; i += 1) view = zoomAt(view, 1.5, { x: 1, y: 200 }, ROWS, COLUMNS);
  assert.deepEqual([view.width, view.height], [6, 6]);
  assert.ok(!isFullView(view, ROWS, COLUMNS));
  for (let i = 0; i < 50; i += 1) view = zoomAt(view, 1 / 1.5, { x: 300, y: 3 }, ROWS, COLUMNS);
  assert.deepEqual(view, fullView(ROWS, COLUMNS));
});

test("a map with one row can be zoomed horizontally", () => {
  const view = zoomAt(fullView(1, COLUMNS), 4, { x: 100, y: 0.5 }, 1, COLUMNS);
  assert.equal(view.height, 1);
  assert.ok(view.width < COLUMNS / 3);
});

test("panning moves by the given distance and stops at the edge", () => {
  const view = { x: 10, y: 20, width: 50, height: 40 };
  assert.deepEqual(pan(view, 5, -3, ROWS, COLUMNS), { ...view, x: 15, y: 17 });
  assert.deepEqual(pan(view, -1000, 1000, ROWS, COLUMNS), { ...view, x: 0, y: ROWS - 40 });
});

test("a cell is revealed by the smallest move, a visible cell by none", () => {
  const view = { x: 10, y: 20, width: 50, height: 40 };
  assert.deepEqual(reveal(view, { row: 30, column: 12 }, ROWS, COLUMNS), view);
  assert.deepEqual(reveal(view, { row: 60, column: 5 }, ROWS, COLUMNS), { ...view, x: 5, y: 21 });
});

test("pixels are mapped to cells, and to null outside the map", () => {
  const view = fullView(ROWS, COLUMNS);
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

test("a map fits into the available space, small or large", () => {
  for (const [rows, columns, width] of [
    [1, 64, 300],
    [17, 17, 700],
    [512, 512, 320],
    [300, 3, 320],
    [2, 512, 1600],
  ]) {
    const found = layout({ width, maxHeight: 640, rows, columns, left: 60, top: 70 });
    assert.ok(found.width <= width && found.height <= 650, `${rows} × ${columns}`);
    assert.ok(found.box.width > 0 && found.box.height > 0);
  }
});

test("labels are left out if there is not enough space", () => {
  assert.equal(labelStep(400, 20), 1);
  assert.equal(labelStep(512, 512), 13);
});
