import assert from "node:assert/strict";
import { test } from "node:test";
import { headColour, inkOn, luminance, rgb, scale, shade } from "../../src/limelight/view/web/colours.js";

function contrast(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

test("each scale goes one way in luminance, from the page to its opposite", () => {
  for (const [name, way] of [
    ["light", -1],
    ["dark", 1],
  ]) {
    const values = scale(name).map(luminance);
    assert.equal(values.length, 256);
    for (let i = 1; i < values.length; i += 1)
      assert.ok(way * (values[i] - values[i - 1]) > 0, `${name} at ${i}`);
    assert.ok(contrast(scale(name)[0], scale(name)[255]) > 10);
  }
});

test("luminance tells a scale from one that turns back", () => {
  assert.ok(luminance(rgb("#ffff00")) > luminance(rgb("#ff0000")));
  assert.ok(luminance(rgb("#ff0000")) > luminance(rgb("#0000ff")));
});

test("a larger weight never has a weaker shade, and weak ones can be seen", () => {
  const shades = [0, 0.001, 0.01, 0.1, 0.5, 1, 2].map((weight) => shade(weight, 1));
  assert.deepEqual(
    shades,
    [...shades].sort((a, b) => a - b),
  );
  assert.equal(shades[0], 0);
  assert.equal(shades.at(-1), 255);
  assert.ok(shade(0.01, 1) > 20);
  assert.equal(shade(0.5, 0), 0);
  assert.equal(shade(NaN, 1), 0);
});

test("what is written on a shade can be read", () => {
  for (const name of ["light", "dark"]) {
    for (const colour of scale(name)) assert.ok(contrast(colour, rgb(inkOn(colour))) > 4);
  }
});

test("eight heads have eight colours, the ninth the first again", () => {
  const eight = Array.from({ length: 8 }, (_, head) => headColour(head));
  assert.equal(new Set(eight).size, 8);
  assert.equal(headColour(8), eight[0]);
});
