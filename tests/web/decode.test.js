import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL, bytesOf, decodeMaps, strongest } from "../../src/limelight/view/web/decode.js";
import { makeRecord } from "./records.js";

const SIDES = { source: ["a", "b", "c"], target: ["x", "y", "z", "u", "v"] };

// Rows that sum to one, all different; sizes are primes.
function rows(seed, height, width) {
  return Array.from({ length: height }, (_, row) => {
    const line = Array.from({ length: width }, (_, i) => 1 + ((seed * 7 + row * 5 + i * i * 3) % 11));
    const sum = line.reduce((a, b) => a + b);
    return line.map((value) => value / sum);
  });
}

const LAYERS = [[rows(1, 5, 3), rows(2, 5, 3)], [rows(3, 3, 3)]];
const MAPS = [
  ["target", "source", 2],
  ["source", "source", 1],
];

test("every weight is decoded to within one step, at its own head, row and column", async () => {
  const maps = await decodeMaps(makeRecord(SIDES, MAPS, LAYERS));
  LAYERS.forEach((layer, map) =>
    layer.forEach((lines, head) =>
      lines.forEach((line, row) =>
        line.forEach((weight, column) => {
          const step = Math.max(...line) / 255;
          assert.ok(Math.abs(maps[map].at(head, row, column) - weight) <= 1.0001 * step);
          assert.equal(maps[map].row(head, row)[column], Math.fround(maps[map].at(head, row, column)));
        }),
      ),
    ),
  );
  assert.deepEqual([maps[0].heads, maps[0].rows, maps[0].columns], [2, 5, 3]);
});

test("rows sum to one, and empty rows to zero", async () => {
  const [map] = await decodeMaps(makeRecord(SIDES, [MAPS[0]], [[LAYERS[0][0], Array(5).fill([0, 0, 0])]]));
  const sum = (row) => row.reduce((a, b) => a + b, 0);
  for (let row = 0; row < 5; row += 1) {
    assert.ok(Math.abs(sum(map.row(0, row)) - 1) < 0.5 / 255);
    assert.equal(sum(map.row(1, row)), 0);
  }
});

test("exact zeros stay exact zeros", async () => {
  const [map] = await decodeMaps(
    makeRecord(
      SIDES,
      [["source", "source", 1]],
      [
        [
          [
            [1, 0, 0],
            [0.25, 0.75, 0],
            [0.2, 0.3, 0.5],
          ],
        ],
      ],
    ),
  );
  assert.equal(map.at(0, 0, 1), 0);
  assert.equal(map.at(0, 1, 2), 0);
  assert.ok(map.at(0, 2, 0) > 0);
});

test("the mean over heads is the mean of their weights", async () => {
  const [map] = await decodeMaps(makeRecord(SIDES, MAPS, LAYERS));
  for (let column = 0; column < 3; column += 1) {
    const mean = (map.at(0, 4, column) + map.at(1, 4, column)) / 2;
    assert.ok(Math.abs(map.row(ALL, 4)[column] - mean) < 1e-6);
    assert.ok(Math.abs(map.at(ALL, 4, column) - mean) < 1e-6);
  }
});

test("the largest weight is found", async () => {
  const [map] = await decodeMaps(
    makeRecord(
      SIDES,
      [["source", "source", 1]],
      [
        [
          [
            [0.5, 0.5, 0],
            [0.1, 0.8, 0.1],
            [0.4, 0.3, 0.3],
          ],
        ],
      ],
    ),
  );
  assert.ok(Math.abs(map.largest - 0.8) < 0.01);
});

test("a record whose weights do not fit its maps raises an error, a valid one does not", async () => {
  const valid = makeRecord(SIDES, MAPS, LAYERS);
  const fewer = makeRecord(SIDES, MAPS, LAYERS.slice(0, 1).concat([[LAYERS[1][0].slice(1)]]));
  const more = { ...valid, maps: valid.maps.slice(0, 1) };
  await assert.rejects(decodeMaps(fewer), /fewer weights/);
  await assert.rejects(decodeMaps(more), /more weights/);
  await assert.rejects(decodeMaps({ ...valid, sides: { source: SIDES.source } }), /no tokens for the map/);
  await assert.rejects(decodeMaps({ ...valid, weights: "AAAA" }), /corrupted/);
  await assert.rejects(decodeMaps({ ...valid, weights: "no base64!" }), /corrupted/);
  assert.equal((await decodeMaps(valid)).length, 2);
});

test("base64 becomes bytes", () => {
  assert.deepEqual([...bytesOf("AP+A")], [0, 255, 128]);
});

test("the largest weights come first, and zeros are left out", () => {
  assert.deepEqual(
    strongest([0.1, 0, 0.6, 0.3], 3).map(({ column }) => column),
    [2, 3, 0],
  );
  assert.deepEqual(strongest([0, 0]), []);
});
