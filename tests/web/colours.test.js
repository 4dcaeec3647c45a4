import assert from "node:assert/strict";
import { test } from "node:test";
import {
  colourScale,
  headColour,
  luminance,
  rgb,
  scaleIndex,
  textColourOn,
} from "../../src/limelight/view/web/colours.js";

function contrast(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

test("the luminance of each scale is monotonic, with high contrast between its ends", () => {
  for (const [name, sign] of [
    ["light", -1],
    ["dark", 1],
  ]) {
    const values = colourScale(name).map(luminance);
    assert.equal(values.length, 256);
    for (let i = 1; i < values.length; i += 1)
      assert.ok(sign * (values[i] - values[i - 1]) > 0, `${name} at ${i}`);
    assert.ok(contrast(colourScale(name)[0], colourScale(name)[255]) > 10);
  }
});

test("luminance orders yellow, red and blue", () => {
  assert.ok(luminance(rgb("#ffff00")) > luminance(rgb("#ff0000")));
  assert.ok(luminance(rgb("#ff0000")) > luminance(rgb("#0000ff")));
});

test("a larger weight never has a lower index, and small weights are visible", () => {
  const indices = [0, 0.001, 0.01, 0.1, 0.5, 1, 2].map((weight) => scaleIndex(weight, 1));
  assert.deepEqual(
    indices,
    [...indices].sort((a, b) => a - b),
  );
  assert.equal(indices[0], 0);
  assert.equal(indices.at(-1), 255);
  assert.ok(scaleIndex(0.01, 1) > 20);
  assert.equal(scaleIndex(0.5, 0), 0);
  assert.equal(scaleIndex(NaN, 1), 0);
});

test("text on each colour of the scale is readable", () => {
  for (const name of ["light", "dark"]) {
    for (const colour of colourScale(name)) assert.ok(contrast(colour, rgb(textColourOn(colour))) > 4);
  }
});

test("eight heads have eight colours, and the ninth has the first colour again", () => {
  const eight = Array.from({ length: 8 }, (_, head) => headColour(head));
  assert.equal(new Set(eight).size, 8);
  assert.equal(headColour(8), eight[0]);
});
