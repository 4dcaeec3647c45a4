import assert from "node:assert/strict";
import { test } from "node:test";
import {
  candidatesAt,
  clampStep,
  isStepped,
  isTranslation,
  stepBy,
  stepMap,
  writtenAt,
} from "../../src/limelight/view/web/steps.js";

const likely = (...texts) => texts.map((text, i) => ({ text, probability: 0.5 / (i + 1) }));
const TRANSLATION = {
  sides: { source: ["▁a", "▁b"], target: ["▁Ein", "igt", "[end]"], written: ["[begin]", "▁Ein", "igt"] },
  steps: [likely("▁Ein", "▁Der"), likely("igt", "▁und"), likely("[end]")],
  stepped: "target",
};
const LABELS = { sides: { source: ["1", "2"] }, steps: [likely("2", "9"), likely("1")], stepped: "source" };

test("only an answer with a step for each token is stepped through", () => {
  assert.ok(isStepped(TRANSLATION) && isTranslation(TRANSLATION));
  assert.ok(isStepped(LABELS) && !isTranslation(LABELS));
  assert.ok(!isStepped({ ...TRANSLATION, steps: TRANSLATION.steps.slice(1) }));
  assert.ok(!isStepped({ ...TRANSLATION, stepped: "" }));
  assert.ok(!isStepped({ sides: { target: [] }, steps: [], stepped: "target" }));
});

test("steps stay within the answer", () => {
  assert.deepEqual(
    [-4, 0, 2, 3, 99, NaN, 1.5].map((step) => clampStep(step, 3)),
    [0, 0, 2, 2, 2, 0, 0],
  );
});

test("keys go back, on, to the beginning and to the end; others do nothing", () => {
  assert.equal(stepBy("ArrowRight", 1, 3), 2);
  assert.equal(stepBy("ArrowRight", 2, 3), 2);
  assert.equal(stepBy("ArrowLeft", 0, 3), 0);
  assert.equal(stepBy("Home", 2, 3), 0);
  assert.equal(stepBy("End", 0, 3), 2);
  assert.equal(stepBy("a", 1, 3), null);
});

test("what is written grows by one token a step", () => {
  assert.deepEqual(writtenAt(TRANSLATION, 0), { before: [], now: "Ein", after: ["·igt", "[end]"] });
  assert.deepEqual(writtenAt(TRANSLATION, 2), { before: ["Ein", "·igt"], now: "[end]", after: [] });
  assert.deepEqual(writtenAt(LABELS, 1), { before: ["2"], now: "1", after: [] });
});

test("candidates are written as the answer is", () => {
  assert.deepEqual(
    candidatesAt(TRANSLATION, 1).map(({ text }) => text),
    ["·igt", "und"],
  );
  assert.deepEqual(
    candidatesAt(LABELS, 0).map(({ text }) => text),
    ["2", "9"],
  );
});

test("a translation is shown by what it looks at in its source", () => {
  const fits = stepMap(TRANSLATION);
  assert.ok(fits({ map: { queries: "target", keys: "source" } }));
  assert.ok(!fits({ map: { queries: "target", keys: "written" } }));
  assert.ok(!fits({ map: { queries: "source", keys: "source" } }));
  assert.ok(stepMap(LABELS)({ map: { queries: "source", keys: "source" } }));
});
