// The page of a comparison: two explorers side by side, each with one of the runs, on the same inputs.
import { labelledSelect, make } from "./dom.js";
import { explore } from "./explorer.js";
import { addressOf, replaceParts, selectParts, writeHash } from "./state.js";

const PREFIXES = ["a.", "b."]; // of the two explorers in the URL
const SIDES = ["first side", "second side"];
const OWN = "page."; // of the selections of this page

const runs = JSON.parse(document.getElementById("records").textContent);
const explorers = [];
const page = readPage();

// The runs of both sides, and whether both show the same view: { a, b, same }.
function readPage() {
  const parts = new URLSearchParams(selectParts(window.location.hash, OWN));
  const number = (name, otherwise) => {
    const value = parts.get(name);
    return /^\d{1,2}$/.test(value ?? "") && Number(value) < runs.length ? Number(value) : otherwise;
  };
  return { shown: [number("a", 0), number("b", 1)], same: parts.get("same") !== "no" };
}

function writePage() {
  const parts = new URLSearchParams();
  page.shown.forEach((run, side) => {
    if (run !== side) parts.set(PREFIXES[side][0], String(run));
  });
  if (!page.same) parts.set("same", "no");
  writeHash(replaceParts(window.location.hash, OWN, parts.toString()));
}

function addSide(side) {
  const element = make("div", {});
  const name = make("h3", { class: "run-name" }, runs[page.shown[side]].name);
  const head = runs.length > 2 ? runSelect(side) : name;
  const node = make("section", { class: "side", "aria-label": SIDES[side] }, head, element);
  explorers.push(
    explore(element, runs[page.shown[side]].records, {
      address: addressOf(PREFIXES[side]),
      onSet: (change) => {
        if (page.same) explorers[1 - side]?.follow(change);
      },
    }),
  );
  return node;
}

function runSelect(side) {
  const options = runs.map(({ name }, value) => ({ value, text: name }));
  return labelledSelect("Run", options, page.shown[side], (run) => {
    page.shown[side] = run;
    writePage();
    explorers[side].replace(runs[run].records);
  });
}

// Selections are copied from the first explorer when both are to show the same again.
function sameView() {
  const change = () => {
    page.same = box.checked;
    writePage();
    if (page.same) explorers[1].follow({ ...explorers[0].state });
  };
  const box = make("input", { type: "checkbox", checked: page.same, change });
  return make("label", { class: "same-view" }, box, "Same example, view and head on both sides");
}

function build() {
  const place = document.getElementById("sides");
  if (runs.length === 1) {
    const element = make("div", {});
    place.append(make("h3", { class: "run-name" }, runs[0].name), element);
    explore(element, runs[0].records);
  } else if (runs.length) {
    const sides = make("div", { class: "sides" });
    place.append(sameView(), sides);
    sides.append(addSide(0), addSide(1));
  }
}

build();
