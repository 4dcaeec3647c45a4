import assert from "node:assert/strict";
import { test } from "node:test";
import { scrollCues } from "../../src/limelight/view/web/scroll_cue.js";

test("a row shows on which sides it continues", () => {
  const cues = (scrollLeft, scrollWidth) =>
    Object.values(scrollCues({ scrollLeft, scrollWidth, clientWidth: 300 }));
  assert.deepEqual(cues(0, 300), [false, false]);
  assert.deepEqual(cues(0, 400), [false, true]);
  assert.deepEqual(cues(50, 400), [true, true]);
  assert.deepEqual(cues(99.5, 400), [true, false]);
});
