import assert from "node:assert/strict";
import { test } from "node:test";
import {
  atTemperature,
  isText,
  nearest,
  temperaturesOf,
} from "../../src/limelight/view/web/next_tokens.js";
import { candidatesAt, isStepped, isTranslation, outputAt } from "../../src/limelight/view/web/steps.js";

const LOGITS = [2, 1.5, 1, 0.5, -0.5, -1, -3];
const TEMPERATURES = [0.1, 0.5, 1, 2];

function softmax(logits, temperature) {
  const powers = logits.map((logit) => Math.exp(logit / temperature));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

// A record of a language model with seven tokens, of which it has the three most likely ones.
function textRecord(logits = LOGITS) {
  const step = softmax(logits, 1)
    .slice(0, 3)
    .map((probability, i) => ({ text: `t${i}`, probability }));
  const total = (one) => logits.reduce((sum, logit) => sum + Math.exp((logit - logits[0]) / one), 0);
  const totals = TEMPERATURES.map(total);
  return {
    sides: { source: ["a", "␣"] },
    stepped: "source",
    steps: [step, step],
    continuation: { temperatures: TEMPERATURES, totals: [totals, totals] },
  };
}

function checkExact(shown, temperature) {
  const expected = softmax(LOGITS, temperature);
  shown.candidates.forEach(({ probability }, i) => assert.ok(Math.abs(probability - expected[i]) < 1e-12));
  const rest = expected.slice(3).reduce((sum, probability) => sum + probability, 0);
  assert.ok(Math.abs(shown.rest - rest) < 2e-5);
}

test("the probabilities at a temperature are exact, although the record has only some tokens", () => {
  for (const temperature of TEMPERATURES) {
    checkExact(atTemperature(textRecord(), 1, temperature), temperature);
  }
  assert.throws(() => checkExact(atTemperature(textRecord(), 1, 0.5), 1));
  const few = textRecord(LOGITS.slice(0, 3)); // as if the others did not exist
  assert.throws(() => checkExact(atTemperature(few, 1, 2), 2));
});

test("at temperature 0 the most likely token is certain", () => {
  const { candidates, rest } = atTemperature(textRecord(), 0, 0);
  assert.deepEqual(
    candidates.map(({ probability }) => probability),
    [1, 0, 0],
  );
  assert.equal(rest, 0);
});

test("a temperature that the record does not have is replaced by the nearest one", () => {
  assert.deepEqual(temperaturesOf(textRecord()), [0, ...TEMPERATURES]);
  assert.deepEqual(
    [0, 0.04, 0.06, 0.9, 9].map((one) => nearest([0, ...TEMPERATURES], one)),
    [0, 0, 1, 3, 4],
  );
  assert.deepEqual(atTemperature(textRecord(), 0, 9), atTemperature(textRecord(), 0, 2));
});

test("the steps of a language model are the tokens of its text, with the candidates for the next one", () => {
  const record = textRecord();
  assert.ok(isText(record) && isStepped(record) && !isTranslation(record));
  assert.deepEqual(outputAt(record, 0), { before: [], current: "a", after: ["␣"] });
  assert.deepEqual(candidatesAt(record, 1, 0.5), atTemperature(record, 1, 0.5).candidates);
  assert.ok(!isText({ ...record, continuation: null }));
  const old = { ...record };
  delete old.continuation; // a file of an older version
  assert.ok(!isText(old));
});
