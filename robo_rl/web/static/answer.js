// The page on which a person answers reward modules: by a button, by touching cells of a picture, or as text.

import { Link, at, make, showPicture } from "/link.js";

let question = { number: 0, parts: [], form: {} };
let cells = []; // [column, row] of the touched cells

const link = new Link({
  message(said) {
    if (said.question) show(said.question);
  },
  picture({ question: number, part }, blob) {
    if (number === question.number) showPicture(at(`part-${part}`), blob);
  },
});

at("said").addEventListener("submit", (event) => {
  event.preventDefault();
  answer(at("text").value);
});
at("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing || isInWords()) return;
  event.preventDefault();
  answer(at("text").value);
});

// Whether the answer is a text, which may have several lines: there is nothing to choose and nothing to touch.
function isInWords() {
  return !question.form.choices && !question.form.grid;
}

function answer(text) {
  if (text.trim()) link.send({ question: question.number, answer: text });
}

function show(asked) {
  question = asked;
  cells = [];
  at("text").value = "";
  at("text").rows = isInWords() ? 12 : 1;
  at("said").hidden = !question.number;
  at("number").textContent = question.number ? `Question ${question.number}` : "Nothing is asked now";
  at("parts").replaceChildren(...question.parts.flatMap(makePart));
  at("parts").style.setProperty("--pictures", question.parts.filter((part) => part === null).length);
  at("choices").replaceChildren(...(question.form.choices ?? []).map(makeChoice));
  if (question.form.grid) for (const image of document.querySelectorAll("#parts img")) image.onclick = touch;
}

const TITLE = /^.{1,40}:$/; // of a picture that follows, for example "Picture 1:"

// A text, or a picture with its title.
function makePart(part, index, parts) {
  if (part !== null) return TITLE.test(part) && parts[index + 1] === null ? [] : [make("p", part)];
  const image = make("img", "", { id: `part-${index}`, alt: `Picture, part ${index + 1}` });
  image.addEventListener("load", () => image.style.setProperty("--aspect", image.naturalWidth / image.naturalHeight));
  const title = TITLE.test(parts[index - 1]) ? [make("p", parts[index - 1])] : [];
  return [make("figure", "", {}, ...title, image)];
}

function makeChoice([said, label]) {
  const button = make("button", label, { "data-answer": said });
  button.addEventListener("click", () => answer(said));
  return button;
}

function touch(event) {
  const box = event.target.getBoundingClientRect();
  const cell = (share) => Math.min(Math.floor(share * question.form.grid), question.form.grid - 1) + 1;
  cells.push([cell((event.clientX - box.left) / box.width), cell((event.clientY - box.top) / box.height)]);
  at("text").value = JSON.stringify(cells);
}
