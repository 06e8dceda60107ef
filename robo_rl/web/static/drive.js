// The page on which a person drives a robot: by touched pads, by keys, or by the pose of a WebXR controller or phone.
// It sends its state many times a second; the robot holds still when these messages end.

import { Figures } from "/figures.js";
import { Held } from "/held.js";
import { Keyboard } from "/keyboard.js";
import { EmergencyStops, Link, at, make } from "/link.js";
import { Pads, vibrate } from "/pads.js";
import { letGo, offerPose, poseAxes } from "/pose.js";
import { Views } from "/views.js";

const SAY_MS = 50;
const STOPPED = /^(last episode: )?stopped/; // a line that says why the robot was stopped
const STOPPED_MS = 8000; // time for which such lines stay, so that they can be read
const EMERGENCY = "emergency_stop";
const TAP_MS = 15; // vibration of a button
const STOP_MS = [200, 100, 200];

const pads = new Pads(at("pads"), say);
const keyboard = new Keyboard(() => connected && !held.holds.length, say, (name) => tap(name));
const figures = new Figures();
const views = new Views(showFrame);
let tapped = [];
let connected = false;
let about = null; // the newest facts about the robot
let elements = []; // of its action
let asPictured = false; // whether the person has chosen the picture's directions
let heading = null; // direction that is upwards in the picture, while the pads and keys follow it [rad]
let lines = []; // the newest ones
let stoppedUntil = 0; // end of the time for which lines about a stop stay

const link = new Link({
  message({ about: facts, lines: news, closed, pong, heard, held: holds, answer }) {
    if (pong !== undefined) figures.pong(pong);
    if (facts) showAbout(facts);
    if (closed !== undefined) showGripper(closed);
    if (heard?.includes(EMERGENCY)) {
      stops.confirm(EMERGENCY);
      at("lines").textContent = "Emergency stop: confirmed";
    }
    if (news) showLines(news);
    if (holds) showHeld(holds);
    if (answer) showAnswer(answer);
  },
  picture({ camera }, blob) {
    views.picture(camera, blob);
    if (camera === views.large) figures.picture();
  },
  state(name) {
    connected = name === "connected";
    if (!connected) {
      figures.clear();
      release();
      tapped = [];
    }
  },
}, { taken: "another page drives: touch to drive here" });
const stops = new EmergencyStops(link);
const held = new Held(link, showAnswer);
at("holds").after(make("p", "", { id: "answer", role: "status" }));

// A change that stops motion is sent at once, because browsers slow down the timers of a page that is hidden.
function say() {
  const pose = poseAxes();
  const wanted = { ...turned({ ...keyboard.axes, ...pads.axes }), ...pose };
  const axes = Object.fromEntries(Object.entries(wanted).filter(([name]) => elements.includes(name)));
  const held = pads.moves || keyboard.moves || pose ? ["deadman"] : [];
  if (connected && link.send({ axes, held, tapped, ...figures.ping() })) tapped = [];
}
setInterval(say, SAY_MS);

// A tap without a connection would come as a surprise later, except for the emergency stop.
function tap(name) {
  vibrate(name === EMERGENCY ? STOP_MS : TAP_MS);
  if (name === EMERGENCY) stops.press(EMERGENCY, { tapped: [EMERGENCY] });
  else if (held.holds.length) return; // its button is hidden
  else if (connected) tapped.push(name);
  else at("lines").textContent = "Not sent: there is no connection";
  say();
}

// Lines about a stop that needs no re-arming, as of a filter, stay for a while: the next episode begins soon.
function showLines(news) {
  lines = news;
  const now = performance.now();
  const stopped = lines.some((line) => STOPPED.test(line)) && !held.holds.length;
  if (now < stoppedUntil && !stopped) return;
  if (stopped && now >= stoppedUntil) {
    vibrate(STOP_MS);
    stoppedUntil = now + STOPPED_MS;
    setTimeout(() => showLines(lines), STOPPED_MS);
  }
  at("lines").textContent = lines.filter((line) => line).join(" · ");
  at("lines").classList.toggle("bad", stopped);
}

// While a latch holds the robot, nothing moves: the pads make room for who stopped it, why, and what to do.
function showHeld(holds) {
  if (holds.length > held.holds.length) vibrate(STOP_MS);
  if (holds.length) release(); // after re-arming a new touch is required
  else at("answer").textContent = "";
  held.show(holds);
  document.body.classList.toggle("stopped", holds.length > 0);
}

function showAnswer(text) {
  at("answer").textContent = at("lines").textContent = text;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-tap]");
  if (!button) return;
  tap(button.dataset.tap);
  if (event.detail) button.blur(); // a touched button must not be pressed again by the space key
});
document.addEventListener("visibilitychange", () => document.hidden && release());
addEventListener("blur", release);
addEventListener("contextmenu", (event) => event.preventDefault());

function release() {
  const moved = pads.moves || keyboard.moves || poseAxes();
  pads.release();
  keyboard.release();
  letGo();
  if (moved) say();
}

// --- the robot --------------------------------------------------------------------------------------------------------

function showAbout(facts) {
  release();
  about = facts;
  elements = about.elements.length ? about.elements : ["x", "y", "z", "roll", "pitch", "yaw", "gripper"];
  if (about.keys) keyboard.use(about.keys);
  at("task").textContent = about.task;
  at("gripper").hidden = !elements.includes("gripper");
  showFrame();
  buildPads();
  for (const button of document.querySelectorAll("button[data-tap]")) {
    let key = button.querySelector("kbd");
    if (!key) button.append((key = make("kbd")));
    key.textContent = keyboard.label(button.dataset.tap);
  }
}

function buildPads() {
  pads.build(elements, (element, sign) => keyboard.label(element, sign), heading !== null);
}

// --- directions -------------------------------------------------------------------------------------------------------

at("frame").addEventListener("click", () => {
  asPictured = !asPictured;
  showFrame();
});

// Show whose directions the pads have. Motion ends when they change.
function showFrame() {
  const has = (...names) => names.filter((name) => elements.includes(name)).length;
  const headings = has("x", "y") === 2 && has("roll", "pitch") !== 1 ? (about?.headings ?? {}) : {};
  const known = headings[views.large] ?? null;
  const next = asPictured ? known : null;
  at("frame").hidden = !Object.keys(headings).length;
  at("frame").disabled = known === null;
  at("frame").title = known === null ? "The pose of this camera is not known" : "What the arrows of the pads refer to";
  at("frame").setAttribute("aria-pressed", String(next !== null));
  at("frame").textContent = `Directions: ${next === null ? "robot" : "picture"}`;
  if (next === heading) return;
  release();
  heading = next;
  buildPads();
}

// Return deflections of the picture's directions (x upwards in it, y to its left) as those of the robot's.
function turned(axes) {
  if (heading === null) return axes;
  const [cos, sin] = [Math.cos(heading), Math.sin(heading)];
  const result = { ...axes };
  for (const [first, second] of [["x", "y"], ["roll", "pitch"]]) {
    const [a, b] = [axes[first] ?? 0, axes[second] ?? 0];
    const parts = [a * cos - b * sin, a * sin + b * cos];
    const largest = Math.max(1, ...parts.map(Math.abs)); // a limit of each part alone would change the direction
    [result[first], result[second]] = parts.map((part) => part / largest);
  }
  return result;
}

// Show what the person's command does with the gripper: null is not known.
function showGripper(closed) {
  at("gripper").setAttribute("aria-pressed", String(closed === true));
  at("gripper-state").textContent = closed === null ? "" : closed ? "closed" : "open";
  at("gripper-hint").textContent = closed === null ? "" : closed ? "press to open" : "press to close";
}

// Keys are shown where there is a keyboard: beside a mouse, or once one of them was pressed.
const showKeys = () => document.body.classList.add("keys");
if (matchMedia("(hover: hover) and (pointer: fine)").matches) showKeys();
addEventListener("keydown", showKeys, { once: true });

offerPose(() => tap("gripper"));
