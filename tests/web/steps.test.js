import assert from "node:assert/strict";
import { test } from "node:test";
import {
  candidatesAt,
  clampStep,
  isStepped,
  isTranslation,
  outputAt,
  stepBy,
  isStepMap,
} from "../../src/limelight/view/web/steps.js";

const likely = (...texts) => texts.map((text, i) => ({ text, probability: 0.5 / (i + 1) }));
const TRANSLATION = {
  sides: { source: ["▁a", "▁b"], target: ["▁Ein", "igt", "[end]"], written: ["[begin]", "▁Ein", "igt"] },
  steps: [likely("▁Ein", "▁Der"), likely("igt", "▁und"), likely("[end]")],
  stepped: "target",
};
const LABELS = { sides: { source: ["1", "2"] }, steps: [likely("2", "9"), likely("1")], stepped: "source" };

test("the step view needs one step for each token", () => {
  assert.ok(isStepped(TRANSLATION) && isTranslation(TRANSLATION));
  assert.ok(isStepped(LABELS) && !isTranslation(LABELS));
  assert.ok(!isStepped({ ...TRANSLATION, steps: TRANSLATION.steps.slice(1) }));
  assert.ok(!isStepped({ ...TRANSLATION, stepped: "" }));
  assert.ok(!isStepped({ sides: { target: [] }, steps: [], stepped: "target" }));
});

test("steps stay within the output", () => {
  assert.deepEqual(
    [-4, 0, 2, 3, 99, NaN, 1.5].map((step) => clampStep(step, 3)),
    [0, 0, 2, 2, 2, 0, 0],
  );
});

test("keys move back, forward, to the start and to the end; other keys do nothing", () => {
  assert.equal(stepBy("ArrowRight", 1, 3), 2);
  assert.equal(stepBy("ArrowRight", 2, 3), 2);
  assert.equal(stepBy("ArrowLeft", 0, 3), 0);
  assert.equal(stepBy("Home", 2, 3), 0);
  assert.equal(stepBy("End", 0, 3), 2);
  assert.equal(stepBy("a", 1, 3), null);
});

test("the output is split at the current step", () => {
  assert.deepEqual(outputAt(TRANSLATION, 0), { before: [], current: "Ein", after: ["·igt", "[end]"] });
  assert.deepEqual(outputAt(TRANSLATION, 2), { before: ["Ein", "·igt"], current: "[end]", after: [] });
  assert.deepEqual(outputAt(LABELS, 1), { before: ["2"], current: "1", after: [] });
});

test("candidates are displayed like the output", () => {
  assert.deepEqual(
    candidatesAt(TRANSLATION, 1).map(({ text }) => text),
    ["·igt", "und"],
  );
  assert.deepEqual(
    candidatesAt(LABELS, 0).map(({ text }) => text),
    ["2", "9"],
  );
});

test("labels of subwords are not displayed like subwords, and some subwords have none", () => {
  const sides = { source: ["▁wal", "king", "▁dogs"] };
  const tagged = { sides, steps: [likely("VERB", "NOUN"), [], likely("NOUN")], stepped: "source" };
  assert.deepEqual(
    candidatesAt(tagged, 0).map(({ text }) => text),
    ["VERB", "NOUN"],
  );
  assert.deepEqual(candidatesAt(tagged, 1), []);
  assert.deepEqual(outputAt(tagged, 1), { before: ["VERB"], current: "", after: ["NOUN"] });
});

test("a translation shows its attention over the source only", () => {
  const fits = isStepMap(TRANSLATION);
  assert.ok(fits({ map: { queries: "target", keys: "source" } }));
  assert.ok(!fits({ map: { queries: "target", keys: "written" } }));
  assert.ok(!fits({ map: { queries: "source", keys: "source" } }));
  assert.ok(isStepMap(LABELS)({ map: { queries: "source", keys: "source" } }));
});
