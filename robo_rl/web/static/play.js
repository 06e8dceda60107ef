// The page of robo-rl play: a live simulation, and keys and buttons that change it.

import { ViewSwitch } from "/cameras.js";
import { Link, at, make, showPicture } from "/link.js";
import { Scene } from "/scene.js";

const LIVE_KEYS = [
  { command: "pause", key: " ", label: "Space", text: (state) => (state.paused ? "Go on" : "Pause") },
  { command: "step", key: ".", text: () => "One step" },
  { command: "next", key: "n", text: () => "Next episode" },
  { command: "slower", key: "-", text: () => "Slower" },
  { command: "faster", key: "+", text: () => "Faster" },
  { command: "less_noise", key: "[", text: () => "Less noise" },
  { command: "more_noise", key: "]", text: () => "More noise" },
  { command: "start", key: "r", text: (state) => (state.fixed_start ? "Random starts" : "Same start again") },
  { command: "push", key: "p", text: (state) => (state.pushing ? "Pushing" : "Push") },
];
const RECORDED_KEYS = [
  LIVE_KEYS[0],
  { command: "back", key: ",", text: () => "Step back" },
  { command: "step", key: ".", text: () => "One step" },
  { command: "previous", key: "b", text: () => "Previous episode" },
  ...LIVE_KEYS.filter(({ command }) => ["next", "slower", "faster"].includes(command)),
];

let about = { control_rate: 1 };
let keys = [];

const link = new Link({
  message({ about: facts, state, scene: part }) {
    if (facts) {
      about = facts;
      at("task").textContent = facts.task;
      at("who").textContent = facts.player;
      makeButtons(facts.recorded ? RECORDED_KEYS : LIVE_KEYS);
    }
    if (state) show(state);
    if (part) scene.show(part);
  },
  picture: (_, blob) => showPicture(at("picture"), blob),
  state: (name) => name === "connected" && views.send(),
}, { connected: "live" });
const scene = new Scene("the simulation");
at("scenes").append(scene.figure);
const views = new ViewSwitch(at("views"), () => link, (shows3d) => {
  at("picture").hidden = shows3d;
  at("scenes").hidden = !shows3d;
});

at("scrubber").addEventListener("input", () => link.send({ command: "seek", value: Number(at("scrubber").value) }));

function makeButtons(wanted) {
  if (keys === wanted) return; // the page has connected again
  keys = wanted;
  at("keys").replaceChildren(at("views"), ...keys.map(({ command, key, label }) => {
    const button = make("button", "", { "data-command": command, "aria-keyshortcuts": label ?? key });
    button.append(make("span"), make("kbd", label ?? key.toUpperCase()));
    button.addEventListener("click", () => link.send({ command }));
    return button;
  }));
}

function show(state) {
  for (const { command, text } of keys) {
    document.querySelector(`[data-command=${command}] span`).textContent = `${text(state)} `;
  }
  const seconds = (state.step / about.control_rate).toFixed(1);
  const parts = [about.recorded ? `episode ${state.episode} (0 to ${state.episodes - 1})` : `episode ${state.episode}`];
  if (about.recorded) parts.push(`step ${state.step} of ${state.steps}`, `${seconds} s`, `speed ${state.speed}`);
  else {
    parts.push(`${seconds} s`, `speed ${state.speed}`, `noise ${state.noise}`);
    parts.push(state.fixed_start ? "same start" : "random starts", `${state.successes} of ${state.ended} succeeded`);
  }
  at("line").textContent = parts.join(" · ");
  at("scrubber").hidden = at("note").hidden = !about.recorded;
  if (about.recorded) {
    at("scrubber").max = state.steps;
    at("scrubber").value = state.step;
    at("note").textContent = state.note || "The poses are being computed";
  }
  at("outcome").textContent = state.outcome || (state.paused ? "paused" : "running");
  at("outcome").className = `chip ${{ success: "good", failure: "bad" }[state.outcome] ?? ""}`;
  at("notice").textContent = state.notice;
  at("notice").hidden = !state.notice;
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=range])")) return;
  const found = keys.find(({ key }) => key === event.key.toLowerCase() || (key === "+" && event.key === "="));
  if (!found) return;
  event.preventDefault(); // the space bar would also press the button that has the focus
  link.send({ command: found.command });
});
