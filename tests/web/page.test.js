import assert from "node:assert/strict";
import { test } from "node:test";
import { targetIndex } from "../../src/limelight/view/web/arrow_keys.js";
import { ALL, decodeMaps } from "../../src/limelight/view/web/decode.js";
import { makeHost } from "../../src/limelight/view/web/host.js";
import { groups } from "../../src/limelight/view/web/overview.js";
import { dataOf, fileName } from "../../src/limelight/view/web/save.js";
import { DEFAULTS } from "../../src/limelight/view/web/state.js";
import { shortLabel, verdict } from "../../src/limelight/view/web/summary.js";
import { even, makeRecord, oneHot } from "./records.js";

test("saved data has the weights as numbers, in the order of the record", async () => {
  const record = makeRecord(
    { source: ["a", "b"], target: ["x", "y", "z"] },
    [["target", "source", 1]],
    [
      [
        [
          [0.25, 0.75],
          [1, 0],
          [1 / 3, 2 / 3],
        ],
      ],
    ],
  );
  const data = dataOf(record, await decodeMaps(record));
  assert.deepEqual(data.weights[0][0][1], [1, 0]);
  assert.deepEqual([data.weights.length, data.weights[0].length, data.weights[0][0].length], [1, 1, 3]);
  for (const row of data.weights[0][0]) assert.ok(row.every((weight) => String(weight).length <= 8));
  assert.equal(data.answer, record.answer);
  assert.equal(typeof record.weights, "string");
});

test("file names have no special characters", () => {
  assert.equal(fileName("multi30k cross-attention, layer 3"), "multi30k-cross-attention-layer-3");
  assert.equal(fileName("../../etc/<passwd>"), "etc-passwd");
  assert.equal(fileName("???"), "attention");
});

test("a prediction is marked correct or wrong if that is defined", () => {
  assert.deepEqual(verdict({ right: true, truth: "4" }), ["right", "✓ correct"]);
  assert.deepEqual(verdict({ right: false, truth: "4" }), ["wrong", "✗ expected 4"]);
  assert.deepEqual(verdict({ right: null, truth: "0.25" }), ["muted", "expected 0.25"]);
});

test("the list of examples has short labels and marks correct ones", () => {
  const given = "x".repeat(100);
  const record = { given, answer: "a", truth: "b", right: false, sides: {}, steps: [], stepped: "" };
  assert.equal(shortLabel(record, 0), `1. ${"x".repeat(47)}… ✗`);
  assert.equal(shortLabel({ ...record, given: "x", truth: "a", right: true }, 1), "2. x ✓");
  assert.equal(shortLabel({ ...record, given: "x", truth: null, right: null }, 1), "2. x");
  assert.equal(shortLabel({ ...record, given: "" }, 2), "3. image, predicted a ✗");
});

test("arrow keys move along a row and to the nearest item of the next row", () => {
  const boxes = [0, 1, 2].flatMap((row) =>
    [0, 100, 200].map((left) => ({ left: left + 10 * row, top: 100 * row })),
  );
  assert.equal(targetIndex("ArrowRight", 0, boxes), 1);
  assert.equal(targetIndex("ArrowLeft", 0, boxes), 8);
  assert.equal(targetIndex("ArrowDown", 1, boxes), 4);
  assert.equal(targetIndex("ArrowUp", 8, boxes), 5);
  assert.equal(targetIndex("ArrowUp", 1, boxes), 1);
  assert.equal(targetIndex("Home", 5, boxes), 0);
  assert.equal(targetIndex("End", 5, boxes), 8);
  assert.equal(targetIndex("x", 5, boxes), null);
});

async function hostOf(change) {
  const focused = oneHot(3, 3, (row) => row);
  const maps = [
    ["source", "source", 2],
    ["target", "source", 1, "cross-attention"],
    ["source", "source", 2],
  ];
  const sides = { source: ["a", "b", "c"], target: ["x", "y"] };
  const layers = [[even(3, 3), even(3, 3)], [even(2, 3)], [even(3, 3), focused]];
  const record = makeRecord(sides, maps, layers);
  return makeHost(
    record,
    await decodeMaps(record),
    () => ({ ...DEFAULTS, ...change }),
    () => {},
  );
}

test("the map and head of the URL are selected if they exist, else the defaults of the view", async () => {
  assert.equal((await hostOf({ map: 2 })).selectedMap(), 2);
  assert.equal((await hostOf({ map: 99 })).selectedMap(), 0);
  const isCross = ({ map }) => map.queries === "target";
  assert.equal((await hostOf({ map: 2 })).selectedMap(isCross), 1);
  assert.equal(
    (await hostOf({})).selectedMap(() => false),
    -1,
  );
  assert.equal((await hostOf({ head: 1 })).selectedHead(0), 1);
  assert.equal((await hostOf({ head: 5 })).selectedHead(0), ALL);
  assert.equal((await hostOf({ head: 5 })).selectedHead(1), 0);
});

test("heads are grouped by part, one row per layer with its mean first, or sorted by entropy", async () => {
  const keys = (found) =>
    found.map(({ rows }) => rows.map((row) => row.map(({ map, head }) => `${map}/${head}`)));
  assert.deepEqual(keys(groups(await hostOf({}))), [
    [
      ["0/-1", "0/0", "0/1"],
      ["2/-1", "2/0", "2/1"],
    ],
    [["1/0"]],
  ]);
  const [encoder] = keys(groups(await hostOf({ sort: "focused" })));
  assert.equal(encoder[0][0], "2/1");
  assert.equal(encoder[0].length, 4);
});

test("the options of a view are the names of the maps that fit", async () => {
  const host = await hostOf({});
  assert.deepEqual(
    host.mapOptions().map(({ text }) => text),
    ["encoder, layer 0", "cross-attention, layer 1", "encoder, layer 2"],
  );
  assert.deepEqual(
    host.mapOptions(({ heads }) => heads === 1).map(({ value }) => value),
    [1],
  );
});
