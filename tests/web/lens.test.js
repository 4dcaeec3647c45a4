import assert from "node:assert/strict";
import { test } from "node:test";
import { hasLens, lensTable } from "../../src/limelight/view/web/lens.js";
import { even, makeRecord } from "./records.js";

const say = (...texts) => texts.map((text, i) => ({ text, probability: 1 / (i + 2) }));
const maps = [["source", "source", 1]];

test("a translation has one column per token, and final answers are marked", () => {
  const record = makeRecord(
    { source: ["a", "b"], target: ["▁ma", "·", "x"] },
    maps,
    [[even(2, 2)]],
    {
      stepped: "target",
      steps: [say("▁ma"), say("·"), say("x")],
      lens: [say("▁la", "·", "x"), say("▁ma", "·", "x")],
    },
  );
  const { columns, rows } = lensTable(record);
  assert.equal(columns.length, 3);
  assert.equal(columns[0], "ma");
  assert.deepEqual(rows.map(({ layer }) => layer), [0, 1]);
  assert.deepEqual(rows[0].cells.map(({ isFinal }) => isFinal), [false, true, true]);
  assert.equal(rows[0].cells[0].text, "la");
  assert.equal(rows[1].cells[2].probability, 0.25);
});

test("a class has one column", () => {
  const record = makeRecord({ source: ["a"] }, maps, [[even(1, 1)]], { lens: [say("cat"), say("dog")] });
  const { columns, rows } = lensTable(record);
  assert.deepEqual(columns, ["prediction"]);
  assert.deepEqual(rows.map(({ cells }) => cells.map(({ text }) => text)), [["cat"], ["dog"]]);
});

test("models of one layer, and records of other programs, have no table", () => {
  const record = makeRecord({ source: ["a"] }, maps, [[even(1, 1)]], { lens: [] });
  assert.equal(hasLens({ record }), false);
  assert.equal(hasLens({ record: { ...record, lens: undefined } }), false);
});
