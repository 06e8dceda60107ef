// The page of robo-rl setup: checks as they are made, pictures, announcements, and the questions to the operator.

import { Held } from "/held.js";
import { EmergencyStops, Link, at, make, showPicture } from "/link.js";

const EMERGENCY = "emergency_stop";
const REPLIES = { start: "Start: the robot may move", directions: "All moved as announced", end: "Done" };

let question = null;
let announcements = [];
let outcomes = [];
let summary = "";
const images = new Map(); // by camera

const link = new Link({
  message({ about, announcement, check, question: news, result, heard, held: holds, answer }) {
    if (about) begin(about);
    if (announcement) announce(announcement);
    if (check) add(check);
    if (news !== undefined) ask(news);
    if (result) summary = result;
    if (heard?.includes(EMERGENCY)) {
      stops.confirm(EMERGENCY);
      report("Emergency stop: confirmed", true);
    }
    if (holds) held.show(holds);
    if (answer) report(answer);
  },
  picture: ({ camera }, blob) => show(camera, blob),
  state(name) {
    if (name !== "ended") return;
    at("emergency").hidden = true; // nobody would hear it
    at("announcement").hidden = true;
    held.show([]);
    ask(null);
    report(`robo-rl setup has ended. ${summary}`, true);
  },
});
const stops = new EmergencyStops(link);
const held = new Held(link, report);

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-command=emergency_stop]")) stops.press(EMERGENCY, { command: EMERGENCY });
});
at("reply").addEventListener("click", () => {
  if (question) link.send({ question: question.number, answer: chosen().join(", ") });
});

// A phone that sleeps has no emergency stop.
function stayOn() {
  if (!document.hidden) navigator.wakeLock?.request("screen").catch(() => {});
}
document.addEventListener("visibilitychange", stayOn);
stayOn();

// Everything follows from the beginning, also after a reconnection.
function begin(about) {
  at("robot").textContent = `${about.robot} · ${about.task}`;
  at("emergency").hidden = !about.stops;
  announcements = [];
  outcomes = [];
  at("checks").replaceChildren();
  at("announcement").hidden = true;
}

function announce(text) {
  announcements.push(text);
  at("announcement").textContent = text;
  at("announcement").hidden = false;
}

const COLOURS = { pass: "good", warn: "waiting", fail: "bad" };

function add({ name, outcome, text }) {
  outcomes.push(outcome);
  const chip = make("span", outcome, { class: `chip ${COLOURS[outcome] ?? ""}` });
  at("checks").append(make("li", "", { class: "check" }, chip, make("div", "", {}, make("b", name), make("p", text))));
  at("no-checks").hidden = true;
  const number = (wanted) => outcomes.filter((each) => each === wanted).length;
  const parts = [`${outcomes.length} made`];
  if (number("fail")) parts.push(`${number("fail")} failed`);
  if (number("warn")) parts.push(`${number("warn")} with a warning`);
  at("count").textContent = parts.join(", ");
  at("count").className = `chip ${number("fail") ? "bad" : number("warn") ? "waiting" : "good"}`;
}

function show(camera, blob) {
  if (!images.has(camera)) {
    const image = make("img", "", { alt: camera });
    images.set(camera, image);
    at("cameras").append(make("figure", "", {}, image, make("figcaption", camera)));
    at("no-cameras").hidden = true;
  }
  showPicture(images.get(camera), blob);
}

// --- questions --------------------------------------------------------------------------------------------------------

function ask(news) {
  if (news?.number === question?.number) return; // after a reconnection, what was chosen remains
  question = news;
  at("request").hidden = !news;
  if (!news) return;
  at("announcement").hidden = true;
  at("request-text").textContent = news.text;
  at("choices").replaceChildren(...news.choices.map(makeChoice));
  showReply();
  at("request").scrollIntoView({ block: "center" });
}

function makeChoice(name) {
  const announced = announcements.findLast((text) => text.startsWith(`${name}: `)) ?? name;
  const button = make("button", announced, { "aria-pressed": "false", "data-choice": name });
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    showReply();
  });
  return button;
}

function chosen() {
  return [...document.querySelectorAll("#choices [aria-pressed=true]")].map((each) => each.dataset.choice);
}

function showReply() {
  const names = chosen();
  at("reply").textContent = names.length ? `Moved differently: ${names.join(", ")}` : REPLIES[question.kind];
}

function report(text, plain = false) {
  at("answer").textContent = text;
  at("answer").classList.toggle("plain", plain);
  at("answer").hidden = !text;
}
