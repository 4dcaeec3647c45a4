import assert from "node:assert/strict";
import { test } from "node:test";
import {
  DEFAULTS,
  decodeState,
  encodeState,
  replaceParts,
  selectParts,
} from "../../src/limelight/view/web/state.js";

test("a state is decoded as it was encoded", () => {
  const state = {
    view: "flow",
    record: 3,
    map: 5,
    head: 7,
    off: [0, 2, 11],
    step: 13,
    sort: "focused",
    temperature: 0.7,
    changes: [
      { map: 3, head: 1 },
      { map: 0, head: -1, query: 2, key: 13 },
    ],
    given: "ein & zwei = <drei> # ü 😀\n",
  };
  assert.deepEqual(decodeState(encodeState(state)), state);
  assert.deepEqual(decodeState(`#${encodeState(state)}`), state);
});

test("defaults are left out of the URL", () => {
  assert.equal(encodeState(DEFAULTS), "");
  assert.equal(encodeState({ ...DEFAULTS, step: 2 }), "step=2");
  assert.deepEqual(decodeState(""), { ...DEFAULTS });
});

test("invalid values give the defaults", () => {
  const invalid = [
    "#",
    "###",
    "%",
    "%E0%A4%A",
    "view",
    "view=",
    "view=nothing",
    "view=__proto__",
    "sort=constructor",
  ];
  invalid.push(
    "changes=3",
    "changes=3.1.2",
    "changes=3.-2",
    "changes=3.1,",
    "changes=a.b",
    `changes=${Array(65).fill("1.1").join(",")}`,
    "record=-1",
    "temperature=-1",
    "temperature=10.5",
    "temperature=hot",
    "record=1e3",
    "record=0x10",
    "record=99999",
    "map=-2",
    "map=1.5",
    "head=NaN",
    "head= 1",
    "step=-3",
    "step=Infinity",
  );
  invalid.push(
    "off=,",
    "off=1,,2",
    "off=a",
    "off=-1",
    `given=${"x".repeat(20001)}`,
    "__proto__=1",
    "\u0000\uffff",
    null,
    undefined,
  );
  for (const hash of invalid) assert.deepEqual(decodeState(hash), { ...DEFAULTS }, String(hash).slice(0, 30));
});

test("one invalid part does not affect the others", () => {
  assert.deepEqual(decodeState("#view=flow&map=oops&off=2,1,2"), { ...DEFAULTS, view: "flow", off: [1, 2] });
});

test("ten thousand random URLs never throw and give allowed values only", () => {
  let seed = 17;
  const next = (limit) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % limit;
  };
  for (let i = 0; i < 10000; i += 1) {
    const hash = Array.from({ length: next(40) }, () => String.fromCharCode(next(300))).join("");
    const { view, off, step } = decodeState(`view=${hash}&off=${hash}&step=${hash}`);
    assert.ok(["overview", "flow", "image", "translation"].includes(view));
    assert.ok(off.every((head) => Number.isInteger(head) && head >= 0) && Number.isInteger(step));
  }
});

test("several explorers each have a part of the URL", () => {
  const hash = "#a.view=flow&b.step=2&a.given=x%26a.y&page.same=no";
  assert.equal(selectParts(hash, "a."), "view=flow&given=x%26a.y");
  assert.equal(selectParts(hash, "c."), "");
  assert.equal(replaceParts(hash, "a.", "head=1"), "b.step=2&page.same=no&a.head=1");
  assert.equal(replaceParts(hash, "b.", ""), "a.view=flow&a.given=x%26a.y&page.same=no");
  assert.equal(decodeState(selectParts(replaceParts(hash, "a.", "step=7"), "a.")).step, 7);
});
