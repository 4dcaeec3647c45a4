import assert from "node:assert/strict";
import { test } from "node:test";
import { displayToken, displayTokens, percent, quoted } from "../../src/limelight/view/web/format.js";

test("subword marks are removed, other tokens are unchanged", () => {
  assert.deepEqual(displayTokens(["▁ma", "les", ",", "▁", "[end]", "<unk>"]), [
    "ma",
    "·les",
    ",",
    "␣",
    "[end]",
    "<unk>",
  ]);
  assert.deepEqual(displayTokens(["ma", "les", "·"]), ["ma", "les", "·"]);
  assert.deepEqual(displayTokens(["les"], ["▁ma"]), ["·les"]);
});

test("invisible characters get a symbol, long tokens are cut, markup is unchanged", () => {
  assert.deepEqual(
    ["", " ", "\n", "a\tb", "<b>"].map((token) => displayToken(token)),
    ["∅", "␣", "⏎", "a⇥b", "<b>"],
  );
  assert.equal(displayToken("abcdef", 4), "abc…");
  assert.equal(displayToken("abcd", 4), "abcd");
  assert.equal(displayToken("😀😀😀😀😀", 4), "😀😀😀…");
  assert.ok(displayToken("x".repeat(1e6)).length === 24);
  assert.equal(quoted("a"), "“a”");
});

test("percentages never round up to 100 or down to 0", () => {
  assert.deepEqual([0, 0.0001, 0.5, 0.99999, 1].map(percent), [
    "0.0 %",
    "< 0.1 %",
    "50.0 %",
    "> 99.9 %",
    "100.0 %",
  ]);
});
