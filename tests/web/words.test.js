import assert from "node:assert/strict";
import { test } from "node:test";
import { percent, quoted, visible, wordsOf } from "../../src/limelight/view/web/words.js";

test("pieces of words lose their mark, others are as they were", () => {
  assert.deepEqual(wordsOf(["▁ma", "les", ",", "▁", "[end]", "<unk>"]), [
    "ma",
    "·les",
    ",",
    "␣",
    "[end]",
    "<unk>",
  ]);
  assert.deepEqual(wordsOf(["ma", "les", "·"]), ["ma", "les", "·"]);
  assert.deepEqual(wordsOf(["les"], ["▁ma"]), ["·les"]);
});

test("what cannot be seen gets a sign, what is long is cut, markup stays as it is", () => {
  assert.deepEqual(
    ["", " ", "\n", "a\tb", "<b>"].map((token) => visible(token)),
    ["∅", "␣", "⏎", "a⇥b", "<b>"],
  );
  assert.equal(visible("abcdef", 4), "abc…");
  assert.equal(visible("abcd", 4), "abcd");
  assert.equal(visible("😀😀😀😀😀", 4), "😀😀😀…");
  assert.ok(visible("x".repeat(1e6)).length === 24);
  assert.equal(quoted("a"), "“a”");
});

test("percentages never round up to certainty or down to nothing", () => {
  assert.deepEqual([0, 0.0001, 0.5, 0.99999, 1].map(percent), [
    "0.0 %",
    "< 0.1 %",
    "50.0 %",
    "> 99.9 %",
    "100.0 %",
  ]);
});
