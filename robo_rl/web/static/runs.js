// The page that shows runs and sends them commands.

import { Alarm } from "/alarm.js";
import { Cameras } from "/cameras.js";
import { Charts } from "/charts.js";
import { DataSets } from "/data_sets.js";
import { showEnded } from "/ended.js";
import { Gallery, colour } from "/gallery.js";
import { Held } from "/held.js";
import { EmergencyStops, Link, at, confirmed, copies, make } from "/link.js";
import { Requests } from "/requests.js";
import { Start } from "/start.js";

const EMERGENCY = "emergency_stop";
const EXPLAINED = {
  pause: "No new episode begins",
  resume: "Episodes begin again",
  checkpoint: "Write a checkpoint now",
  stop: "Evaluate, write everything, and end the run",
  reset: "End this robot's episode; the next begins",
  success: "The task is solved: end this robot's episode as a success",
  failure: "The task was not solved: end this robot's episode",
  emergency_stop: "Every robot holds still until a person re-arms",
};

const alarm = new Alarm(at("alarm"));
let connected = false;
let chosen = null; // path of the run that the person chose: the newest until then; kept after a lost connection
let run = null;
const activeRuns = new Set(); // paths
let compared = []; // runs whose curves are shown, too

const requests = new Requests((message) => link.send(message));
const start = new Start(requests.ask);
const sets = new DataSets(at("sets-section"), requests.ask, (found) => start.offer(found));
const link = new Link({
  message(news) {
    if ("number" in news) {
      requests.settle(news.number, news.error, news);
      return; // an answer may contain the names below
    }
    if ("runs" in news) showRuns(news.runs);
    if ("note" in news) at("notice").textContent = news.note;
    if ("searched" in news) at("searched").textContent = news.searched;
    if ("stopped" in news) stops.confirm(news.stopped);
    if ("answer" in news) showAnswer(news.answer);
    if ("held" in news) showHeld(news.held);
    if ("compared" in news) compared = news.compared;
    if ("run" in news) showRun(news.run);
    else if ("compared" in news) drawCurves();
    if ("scene" in news) cameras.scene(news.scene);
    if ("poster" in news) gallery.lack(news.poster, news.problem);
    if ("gallery" in news) showGallery(news.gallery);
    if ("pages" in news) showPages(news.pages);
    if ("started" in news) start.show(news.started);
    if ("more_started" in news) start.count(news.more_started);
  },
  picture(heading, blob) {
    if ("number" in heading) requests.settle(heading.number, undefined, blob);
    else if ("poster" in heading) gallery.picture(heading.poster, blob);
    else cameras.picture(heading, blob);
  },
  state(name) {
    connected = name === "connected";
    alarm.update("connection", name === "lost" ? ["the connection is lost"] : []);
    if (connected && chosen) link.send({ run: chosen });
    if (connected) {
      cameras.views.send();
      link.send({ compare: gallery.compared() });
      sets.list();
      start.open();
    } else {
      sets.stop();
      requests.lose();
    }
    showNotice();
    enableButtons();
  },
});
const cameras = new Cameras(() => link);
const stops = new EmergencyStops(link);
const held = new Held(link, showAnswer);
const charts = new Charts(at("curves"));
const gallery = new Gallery(at("gallery"), {
  choose(path) {
    choose(path);
    scrollTo({ top: 0, behavior: "smooth" });
  },
  compare: (paths) => link.send({ compare: paths }),
});

copies(at("first-copy"), at("first"));
at("runs").addEventListener("change", () => choose(at("runs").value));
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-command]");
  if (button && !button.disabled && confirmed(button)) press(button);
});

// --- commands ---------------------------------------------------------------------------------------------------------

function press(button) {
  const { command, robot = "" } = button.dataset;
  if (command === EMERGENCY) {
    const path = run?.path ?? null; // null: the robots of this user, if no run is shown
    stops.press(path, { command, run: path });
    return;
  }
  const sent = link.send({ command, robot, run: run?.path });
  at("answer").textContent = sent ? `${command} ${robot}: sent` : "Not sent: there is no connection";
}

function enableButtons() {
  for (const button of document.querySelectorAll("button[data-command]")) {
    const command = button.dataset.command;
    const lacks = !connected ? "There is no connection" : !run ? "There is no run" : "";
    const why = (command !== EMERGENCY && lacks) || (run?.refused[command] ?? "");
    button.disabled = why !== "";
    button.title = why ? `${EXPLAINED[command]}. Not now: ${why}` : EXPLAINED[command];
  }
  const paused = run?.live.paused ?? false;
  document.querySelector("[data-command=pause]").hidden = paused;
  document.querySelector("[data-command=resume]").hidden = !paused;
}

function choose(path) {
  cameras.clear();
  chosen = path;
  link.send({ run: chosen });
}

// --- messages of the server -------------------------------------------------------------------------------------------

function showRuns(runs) {
  if (!runs.some(({ path }) => path === chosen)) chosen = null;
  at("runs").replaceChildren(...runs.map(({ path, name }) => make("option", name, { value: path })));
  at("runs").disabled = runs.length < 2;
  at("runs").hidden = runs.length === 0;
  if (run) at("runs").value = run.path;
}

function showHeld(holds) {
  held.show(holds);
  if (holds.some(({ what }) => what === "unknown")) return; // for a moment, the file of a stop was not read
  alarm.update("held", holds.map(({ what, reason }) => `${what}: ${reason}`));
}

// Links to pages of other commands: [title, address].
function showPages(pages) {
  at("pages").replaceChildren(...pages.map(([title, href]) => make("a", title, { class: "button", href })));
  at("pages-section").hidden = pages.length === 0;
}

function showGallery(runs) {
  gallery.show(runs, run?.path);
  at("gallery-section").hidden = runs.length === 0;
  const readable = runs.filter(({ state }) => state !== "cannot be shown");
  const ended = readable.filter(({ path, going_on }) => !going_on && activeRuns.delete(path));
  alarm.raise(ended.map(({ name, state }) => `${name}: ${state}`));
  const active = readable.filter(({ going_on }) => going_on);
  for (const { path } of active) activeRuns.add(path); // also one that is no longer among the newest runs
  const stopped = active.filter(({ state }) => state.includes("stopped"));
  alarm.update("stopped", stopped.map(({ name, state }) => `${name}: ${state}`));
}

function showAnswer(text) {
  at(run ? "answer" : "notice").textContent = text;
  showNotice();
}

function showNotice() {
  if (run) at("notice").textContent = "";
  at("notice").hidden = at("notice").textContent === "";
}

function showRun(news) {
  if (chosen && news && news.path !== chosen) return; // from a connection that does not have the choice yet
  if (news?.path !== run?.path) alarm.forget("robots");
  chosen = news?.path ?? null;
  run = news;
  at("shown").hidden = !run;
  at("no-runs").hidden = run !== null;
  showNotice();
  enableButtons();
  if (!run) return;
  at("runs").value = run.path;
  document.title = alarm.titled(`${run.title}: ${run.live.state || run.status}`);
  at("title").textContent = run.title;
  at("path").textContent = run.path;
  const waits = run.waiting.length ? ` (asked for: ${run.waiting.join(", ")})` : "";
  const pausing = run.live.paused && !run.live.state.startsWith("paused") ? ", will pause" : "";
  at("state").textContent = (run.going_on ? run.live.state + pausing : run.status) + waits;
  at("state").className = `chip ${colour(run.going_on ? run.live.state : run.status, run.going_on, run.live.paused)}`;
  at("cameras-section").hidden = at("robots-section").hidden = !run.going_on;
  explainCameras();
  showEnded(run);
  at("facts").replaceChildren(...run.facts.flatMap(([name, text]) => [make("dt", name), make("dd", text)]));
  const faults = run.faults.length ? run.faults : ["none"];
  at("faults").replaceChildren(...faults.map((text) => make("li", text)));
  showRobots(run.live.robots);
  drawCurves();
  gallery.mark(run.path);
  enableButtons();
}

function explainCameras() {
  const problem = run.live.robots.map((robot) => robot.picture_problem).find((each) => each);
  cameras.explain(problem || (run.going_on ? "No picture has come yet" : "Cameras are live: the run is not running"));
}

function drawCurves() {
  if (!run) return;
  charts.show([{ ...run, name: run.name }, ...compared]);
  at("no-curves").hidden = run.curves.length > 0;
}

function showRobots(robots) {
  const silent = run.going_on ? robots.filter(({ connected }) => !connected) : [];
  alarm.update("robots", silent.map(({ name }) => `${name}: silent`));
  if (!robots.length) {
    delete at("robots").dataset.shape;
    at("robots").replaceChildren(make("caption", run.going_on ? "None has joined yet" : "The run is not running"));
    return;
  }
  const names = [...new Set(robots.flatMap((robot) => Object.keys(robot.facts)))];
  const table = at("robots");
  const shape = JSON.stringify([names, robots.map((robot) => robot.name)]);
  if (table.dataset.shape !== shape) {
    // Replaced only then: a button that is replaced while it is pressed does nothing.
    table.dataset.shape = shape;
    const head = ["robot", "", ...names, ""].map((name) => make("th", name));
    const rows = robots.map((robot) => makeRow(robot.name, names));
    table.replaceChildren(make("thead", "", {}, make("tr", "", {}, ...head)), make("tbody", "", {}, ...rows));
  }
  robots.forEach((robot, index) => {
    const cells = table.tBodies[0].rows[index].cells;
    cells[1].firstChild.textContent = robot.connected ? "connected" : "silent";
    cells[1].firstChild.className = `chip ${robot.connected ? "good" : "bad"}`;
    names.forEach((name, column) => (cells[column + 2].textContent = robot.facts[name] ?? ""));
  });
}

function makeRow(robot, names) {
  const acts = make("td", "", { class: "acts" },
    make("button", "Reset", { "data-command": "reset", "data-robot": robot }),
    make("button", "Success", { "data-command": "success", "data-robot": robot }),
    make("button", "Failure", { "data-command": "failure", "data-robot": robot }));
  return make("tr", "", {}, make("th", robot), make("td", "", {}, make("span")), ...names.map((name) => make("td", "", { "data-name": name })), acts);
}
