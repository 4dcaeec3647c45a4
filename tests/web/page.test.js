import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL, decodeMaps } from "../../src/limelight/view/web/decode.js";
import { makeHost } from "../../src/limelight/view/web/host.js";
import { groups } from "../../src/limelight/view/web/overview.js";
import { target } from "../../src/limelight/view/web/roving.js";
import { dataOf, fileName } from "../../src/limelight/view/web/save.js";
import { DEFAULTS } from "../../src/limelight/view/web/state.js";
import { shortly, verdict } from "../../src/limelight/view/web/summary.js";
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

test("a file's name is plain", () => {
  assert.equal(fileName("multi30k decoder to encoder, layer 3"), "multi30k-decoder-to-encoder-layer-3");
  assert.equal(fileName("../../etc/<passwd>"), "etc-passwd");
  assert.equal(fileName("???"), "attention");
});

test("an answer is said to be right or wrong, where that can be said", () => {
  assert.deepEqual(verdict({ right: true, truth: "4" }), ["right", "✓ right"]);
  assert.deepEqual(verdict({ right: false, truth: "4" }), ["wrong", "✗ expected 4"]);
  assert.deepEqual(verdict({ right: null, truth: "0.25" }), ["muted", "expected 0.25"]);
});

test("a list names its examples shortly and says which are right", () => {
  const record = { given: "x".repeat(100), answer: "a", truth: "b", right: false, sides: {}, steps: [], stepped: "" };
  assert.equal(shortly(record, 0), `1. ${"x".repeat(47)}… ✗`);
  assert.equal(shortly({ ...record, given: "x", truth: "a", right: true }, 1), "2. x ✓");
  assert.equal(shortly({ ...record, given: "x", truth: null, right: null }, 1), "2. x");
});

test("arrow keys go along a row and to the nearest one of the next", () => {
  const places = [0, 1, 2].flatMap((row) =>
    [0, 100, 200].map((left) => ({ left: left + 10 * row, top: 100 * row })),
  );
  assert.equal(target("ArrowRight", 0, places), 1);
  assert.equal(target("ArrowLeft", 0, places), 8);
  assert.equal(target("ArrowDown", 1, places), 4);
  assert.equal(target("ArrowUp", 8, places), 5);
  assert.equal(target("ArrowUp", 1, places), 1);
  assert.equal(target("Home", 5, places), 0);
  assert.equal(target("End", 5, places), 8);
  assert.equal(target("x", 5, places), null);
});

async function hostOf(change) {
  const focused = oneHot(3, 3, (row) => row);
  const maps = [
    ["source", "source", 2],
    ["target", "source", 1, "decoder to encoder"],
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

test("what the address asks for is chosen where it exists, else what the view begins with", async () => {
  assert.equal((await hostOf({ map: 2 })).chosen(), 2);
  assert.equal((await hostOf({ map: 99 })).chosen(), 0);
  const isCross = ({ map }) => map.queries === "target";
  assert.equal((await hostOf({ map: 2 })).chosen(isCross), 1);
  assert.equal(
    (await hostOf({})).chosen(() => false),
    -1,
  );
  assert.equal((await hostOf({ head: 1 })).head(0), 1);
  assert.equal((await hostOf({ head: 5 })).head(0), ALL);
  assert.equal((await hostOf({ head: 5 })).head(1), 0);
});

test("heads stand by part, a row a layer after its mean, or the most focused first", async () => {
  const places = (found) =>
    found.map(({ rows }) => rows.map((row) => row.map(({ map, head }) => `${map}/${head}`)));
  assert.deepEqual(places(groups(await hostOf({}))), [
    [
      ["0/-1", "0/0", "0/1"],
      ["2/-1", "2/0", "2/1"],
    ],
    [["1/0"]],
  ]);
  const [encoder] = places(groups(await hostOf({ sort: "focused" })));
  assert.equal(encoder[0][0], "2/1");
  assert.equal(encoder[0].length, 4);
});

test("maps to choose from are named, and only those that fit", async () => {
  const host = await hostOf({});
  assert.deepEqual(
    host.options().map(({ text }) => text),
    ["encoder, layer 0", "decoder to encoder, layer 1", "encoder, layer 2"],
  );
  assert.deepEqual(
    host.options(({ heads }) => heads === 1).map(({ value }) => value),
    [1],
  );
});
