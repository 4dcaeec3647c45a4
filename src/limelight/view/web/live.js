// The served page: what is typed or dropped is answered and shown at once.
import { look, makeAsker, read } from "./asking.js";
import { make } from "./dom.js";
import { explore } from "./explorer.js";
import { readAddress } from "./state.js";

const form = document.getElementById("ask");
const message = document.getElementById("message");
const busy = document.getElementById("busy");
const explorer = explore(document.getElementById("explorer"), [], { live: true, state: readAddress() });

const asker = makeAsker({
  send: look,
  onRecord: (record) => {
    message.textContent = "";
    explorer.show(record);
  },
  onError: (text) => {
    message.textContent = text;
  },
  onBusy: (isBusy) => {
    form.setAttribute("aria-busy", String(isBusy));
    busy.textContent = isBusy ? "looking …" : "";
  },
});

function textForm({ longest, examples }, given) {
  const field = make("textarea", { id: "given", rows: "2", spellcheck: "false", autocomplete: "off" });
  field.value = given;
  const ask = (when) => {
    explorer.set({ given: field.value });
    if (field.value.trim()) when(field.value);
    else asker.stop();
  };
  field.addEventListener("input", () => ask(asker.soon));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    ask(asker.now);
  });
  const hint = `The prediction and the maps follow as you type, up to ${longest} tokens.`;
  form.append(
    make("label", { for: "given", class: "label" }, "Type here"),
    field,
    make("p", { class: "muted note" }, hint),
  );
  form.append(
    exampleButtons(examples, (example) => {
      field.value = example;
      ask(asker.now);
    }),
  );
  // A link to another input was pasted into this page.
  window.addEventListener("hashchange", () => {
    const { given: wanted } = readAddress();
    if (!wanted || wanted === field.value) return;
    field.value = wanted;
    ask(asker.now);
  });
  if (given.trim()) ask(asker.now);
}

function imageForm() {
  const picker = make("input", { type: "file", id: "file", accept: "image/*", class: "hidden" });
  const zone = make(
    "label",
    { for: "file", class: "drop" },
    picker,
    make("strong", {}, "Drop a picture here"),
    " or choose a file",
  );
  const take = (files) => {
    if (files.length) asker.now(files[0]);
  };
  const hover = (isOver) => (event) => {
    event.preventDefault();
    zone.classList.toggle("over", isOver);
  };
  picker.addEventListener("change", () => take(picker.files));
  zone.addEventListener("dragover", hover(true));
  zone.addEventListener("dragleave", hover(false));
  zone.addEventListener("drop", (event) => {
    hover(false)(event);
    take(event.dataTransfer.files);
  });
  form.append(zone);
}

function exampleButtons(examples, onChoose) {
  const list = make("div", { class: "examples", role: "group", "aria-label": "examples" });
  for (const example of examples) {
    list.append(
      make(
        "button",
        { type: "button", class: "example", title: example, click: () => onChoose(example) },
        example,
      ),
    );
  }
  return list;
}

async function start() {
  const about = await read(await fetch("api/about"));
  document.title = `${about.name} · limelight`;
  document.getElementById("name").textContent = about.name;
  if (about.first) explorer.show(about.first);
  if (about.kind === "image") imageForm();
  else textForm(about, explorer.state.given || about.sample);
}

form.addEventListener("submit", (event) => event.preventDefault());
start().catch((error) => {
  message.textContent = error.message;
});
