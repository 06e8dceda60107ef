// The page that shows the episodes of data sets, and saves edits of them as new data sets.

import { Edits, describe } from "/data_edits.js";
import { Player } from "/data_episode.js";
import { fillTile, seconds } from "/data_sets.js";
import { Thumbnails } from "/data_thumbnails.js";
import { EmergencyStops, Link, at, make, shorten } from "/link.js";
import { Requests } from "/requests.js";

const PORTION = 60; // episodes that are displayed at first, and more each time
const MOST_COUNTED = 20000; // steps of a data set up to which its flags are counted before it is chosen
const EMERGENCY = "data page";
const OUTCOME = { true: "success", false: "failure", null: "success unknown" };

const requests = new Requests((message) => link.send(message));
const { ask } = requests;
const thumbnails = new Thumbnails(ask);
let wanted = new URLSearchParams(location.search).get("set"); // the path of the data set to open at first
let sets = [];
let chosen = null; // the described data set
let edits = null;
let flags = null; // {flags: [{name: text}], meanings}
let episode = null;
let current = 0; // the episode of the list that has the focus, or gets it
let limit = PORTION;

const link = new Link({
  message(news) {
    if ("saving" in news) showProgress(news.saving);
    if ("stopped" in news) stops.confirm(news.stopped);
    if ("answer" in news) showNotice(news.answer);
    if ("number" in news) requests.settle(news.number, news.error, news);
  },
  picture: ({ number }, blob) => requests.settle(number, undefined, blob),
  state(name) {
    if (name === "connected") {
      listSets();
      if (episode !== null) player.resume();
    } else requests.lose();
  },
}, {}, "/socket/data");
const stops = new EmergencyStops(link);
const player = new Player(ask, showEditButtons);

at("emergency").addEventListener("click", () => stops.press(EMERGENCY, { command: "emergency_stop", run: EMERGENCY }));
at("filter").addEventListener("change", () => showEpisodes());
at("more").addEventListener("click", () => {
  limit += PORTION;
  showEpisodes();
});
at("drop-flagged").addEventListener("click", () => edit("delete", flaggedEpisodes()));
at("previous").addEventListener("click", () => go(-1));
at("next").addEventListener("click", () => go(1));
at("close").addEventListener("click", closeEpisode);
at("undo").addEventListener("click", undo);
at("edit-buttons").addEventListener("click", ({ target }) => target.dataset.edit && editHere(target.dataset.edit));
at("name").addEventListener("input", showCommand);
at("save").addEventListener("submit", save);
addEventListener("keydown", press);

function showNotice(text) {
  at("notice").textContent = text;
  at("notice").hidden = text === "";
}

// --- data sets --------------------------------------------------------------------------------------------------------

async function listSets() {
  try {
    const list = await ask("list");
    sets = list.sets;
    showNotice(list.notes.join("; "));
  } catch (error) {
    showNotice(error.message);
    return;
  }
  const buttons = sets.map((set) => {
    const button = make("button", "", { class: "tile", "aria-pressed": String(set.path === chosen?.path) });
    button.disabled = set.problem !== undefined;
    fillTile(button, set, thumbnails);
    button.addEventListener("click", () => chooseAndShow(set.path));
    return button;
  });
  at("sets").replaceChildren(...buttons);
  countFlags(sets, buttons);
  const [first] = sets.filter(({ path, problem }) => !problem && (path === wanted || sets.length === 1));
  if (chosen === null && first) await (first.path === wanted ? chooseAndShow(wanted) : choose(first.path));
  wanted = null;
}

async function chooseAndShow(path) {
  await choose(path);
  if (chosen?.path === path) at("episodes-section").scrollIntoView({ block: "start" });
}

// Add the number of flagged episodes to the tiles of data sets, one after the other.
async function countFlags(listed, tiles) {
  for (const [index, { path, steps, problem }] of listed.entries()) {
    if (problem !== undefined || steps > MOST_COUNTED) continue;
    try {
      const count = (await ask("flags", { path })).flags.filter((each) => Object.keys(each).length).length;
      if (count) tiles[index].querySelector(".chips").append(make("span", `${count} flagged`, { class: "chip bad" }));
    } catch {
      continue; // the reason is displayed when it is chosen
    }
    if (listed !== sets) return; // listed again meanwhile
  }
}

// Edits outlive a reload of the page.
function storedOperations() {
  const operations = JSON.parse(sessionStorage.getItem(`edits ${chosen.path}`) ?? "[]");
  return operations.filter(({ episodes }) => episodes.every((each) => each < chosen.steps.length));
}

let choices = 0;
async function choose(path) {
  const number = (choices += 1);
  let described;
  try {
    described = await ask("describe", { path });
  } catch (error) {
    if (number === choices) showNotice(error.message);
    return;
  }
  if (number !== choices) return; // another one was chosen meanwhile
  closeEpisode(); // not earlier: an episode of the previous data set may be opened while the answer is awaited
  chosen = described;
  [edits, flags, limit, current] = [new Edits(chosen.steps, storedOperations()), null, PORTION, 0];
  for (const button of at("sets").children) button.setAttribute("aria-pressed", String(button.title === path));
  at("episodes-section").hidden = at("edits-section").hidden = false;
  at("name").value = `${chosen.name.replace(/[^A-Za-z0-9_.-]/g, "_")}_edited`.slice(-64);
  at("saved").textContent = "";
  at("title").textContent = chosen.name;
  const total = chosen.steps.reduce((sum, steps) => sum + steps, 0);
  at("facts").textContent = `${chosen.path}: ${chosen.task}, ${chosen.steps.length} episodes, ${total.toLocaleString("en")} steps at ${shorten(chosen.rate)} Hz`;
  showAll();
  loadFlags(path);
}

async function loadFlags(path) {
  at("flags-state").textContent = "Looking for doubtful episodes";
  try {
    const found = await ask("flags", { path });
    if (chosen.path !== path) return;
    flags = found;
    const count = flaggedEpisodes().length;
    const unchecked = flags.unchecked ? " Pictures are too large to be checked here: use robo-rl data describe." : "";
    at("flags-state").textContent = `${count ? `${count} flagged` : "None is flagged"}.${unchecked}`;
  } catch (error) {
    if (chosen.path === path) at("flags-state").textContent = `Not checked: ${error.message}`;
    return;
  }
  showAll();
}

function flaggedEpisodes() {
  return (flags?.flags ?? []).flatMap((each, number) => (Object.keys(each).length && edits.pieces(number).length ? [number] : []));
}

// --- episodes ---------------------------------------------------------------------------------------------------------

function showAll() {
  showFilter();
  showEpisodes();
  if (episode !== null) showEpisode();
  showEdits();
}

function filters() {
  const numbers = chosen.steps.map((_, number) => number);
  const has = (name) => numbers.filter((number) => flags?.flags[number]?.[name]);
  const named = Object.keys(flags?.meanings ?? {}).map((name) => [`flag ${name}`, has(name)]);
  const flagged = numbers.filter((number) => Object.keys(flags?.flags[number] ?? {}).length);
  return [
    ["all", numbers],
    ["flagged", flagged],
    ...named.filter(([, found]) => found.length),
    ["edited", numbers.filter((number) => edits.isEdited(number))],
  ];
}

function showFilter() {
  const selected = at("filter").value || "all";
  const options = filters().map(([name, found]) => make("option", `${name} (${found.length})`, { value: name }));
  at("filter").replaceChildren(...options);
  at("filter").value = options.some(({ value }) => value === selected) ? selected : "all";
  const count = flaggedEpisodes().length;
  at("drop-flagged").hidden = !count;
  at("drop-flagged").textContent = `Delete ${count} flagged`;
}

function filtered() {
  return filters().find(([name]) => name === at("filter").value)[1];
}

function showEpisodes() {
  const numbers = filtered();
  const before = new Map([...at("episodes").children].map((box) => [box.dataset.key, box]));
  const boxes = numbers.slice(0, limit).map((number) => {
    const key = `${chosen.path} ${number}`;
    const box = before.get(key) ?? makeBox(number, key);
    showState(box, number);
    return box;
  });
  // Only if they are others: an element that is replaced loses the focus.
  const same = boxes.length === before.size && boxes.every((box, index) => box === at("episodes").children[index]);
  if (!same) {
    const focused = document.activeElement;
    at("episodes").replaceChildren(...boxes);
    if (at("episodes").contains(focused)) focused.focus({ preventScroll: true });
  }
  makeCurrent(numbers.includes(current) ? current : numbers[0]);
  at("more").hidden = numbers.length <= limit;
}

function makeBox(number, key) {
  const [height, width] = chosen.sizes[chosen.cameras[0]] ?? [3, 4];
  const pictures = thumbnails.make(chosen.path, number, 3, 3 * Math.max(width / height, 0.5));
  const tile = make("button", "", { class: "tile" }, pictures, make("b", `Episode ${number}`));
  tile.number = number;
  tile.append(make("span", "", { class: "quiet" }), make("span", "", { class: "chips" }));
  tile.addEventListener("click", () => openEpisode(number));
  const button = make("button", "Delete", { class: "drop", title: "Key x" });
  button.addEventListener("click", () => deleteOrKeep(number));
  const box = make("div", "", { class: "episode", "data-key": key }, tile, button);
  box.addEventListener("focusin", () => makeCurrent(number));
  return box;
}

function showState(box, number) {
  const [tile, button] = box.children;
  const pieces = edits.pieces(number);
  const kept = pieces.reduce((sum, { first, stop }) => sum + stop - first, 0);
  const [, , facts, chips] = tile.children;
  const steps = chosen.steps[number];
  facts.textContent = `${kept === steps || !pieces.length ? steps : `${kept} of ${steps}`} steps, ${seconds(steps / chosen.rate)}`;
  const mark = pieces.length === 1 ? pieces[0].mark : null;
  const outcome = mark ?? OUTCOME[chosen.success[number]];
  const words = [[outcome, outcome === "success" ? "good" : outcome === "failure" ? "bad" : ""]];
  for (const name of Object.keys(flags?.flags[number] ?? {})) if (name !== "failure") words.push([name, "bad"]);
  if (!pieces.length) words.unshift(["deleted", ""]);
  else if (pieces.length > 1) words.push([`${pieces.length} pieces`, ""]);
  if (mark) words.push(["corrected", ""]);
  chips.replaceChildren(...words.map(([word, kind]) => make("span", word, { class: `chip ${kind}` })));
  tile.classList.toggle("gone", !pieces.length);
  button.textContent = pieces.length ? "Delete" : "Keep";
  button.setAttribute("aria-label", `${button.textContent} episode ${number}`);
  tile.setAttribute("aria-pressed", String(number === episode));
}

// --- keys of the list -------------------------------------------------------------------------------------------------

function tileOf(number) {
  return [...at("episodes").querySelectorAll(".tile")].find((tile) => tile.number === number);
}

// Make a tile the one that the Tab key reaches, and the arrow keys begin at.
function makeCurrent(number) {
  current = number;
  for (const tile of at("episodes").querySelectorAll(".tile")) {
    tile.tabIndex = tile.number === number ? 0 : -1;
    tile.nextSibling.tabIndex = tile.tabIndex;
  }
}

// Move the focus in the list, in tiles or rows of tiles; more episodes are shown at its end.
function move({ by = 0, rows = 0, to = null }) {
  const shown = [...at("episodes").querySelectorAll(".tile")];
  const top = shown[0].offsetTop;
  const columns = shown.findIndex((tile) => tile.offsetTop !== top);
  const index = to ?? shown.indexOf(tileOf(current)) + by + rows * (columns < 1 ? shown.length : columns);
  if (index >= shown.length && !at("more").hidden) {
    limit += PORTION;
    showEpisodes();
  }
  at("episodes").querySelectorAll(".tile")[Math.max(index, 0)]?.focus();
}

function pressInList(event) {
  const inList = at("episodes").contains(event.target);
  if (!at("episodes").children.length || !(inList || event.target === document.body)) return;
  const last = () => at("episodes").children.length - 1;
  const actions = {
    ArrowLeft: () => (inList ? move({ by: -1 }) : tileOf(current)?.focus()),
    ArrowRight: () => (inList ? move({ by: 1 }) : tileOf(current)?.focus()),
    ...(inList && {
      ArrowUp: () => move({ rows: -1 }),
      ArrowDown: () => move({ rows: 1 }),
      Home: () => move({ to: 0 }),
      End: () => move({ to: last() }),
      x: () => deleteOrKeep(current),
    }),
  };
  if (!(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

// --- one episode ------------------------------------------------------------------------------------------------------

function openEpisode(number) {
  episode = number;
  at("episode-section").hidden = false;
  player.open(chosen, number);
  showAll();
  at("episode-section").scrollIntoView({ block: "start" });
}

function closeEpisode() {
  if (episode === null) return;
  player.close();
  at("episode-section").hidden = true;
  const tile = tileOf(episode);
  episode = null;
  showEpisodes();
  tile?.focus({ preventScroll: true });
  tile?.scrollIntoView({ block: "center" });
}

function go(by) {
  const numbers = filtered();
  const index = numbers.indexOf(episode);
  const next = index < 0 ? numbers.find((number) => number > episode) : numbers[index + by];
  if (next !== undefined) openEpisode(next);
}

function showEpisode() {
  const outcome = OUTCOME[chosen.success[episode]];
  at("episode-title").textContent = `Episode ${episode}`;
  const instruction = chosen.instructions[episode] ? `, "${chosen.instructions[episode]}"` : "";
  at("episode-facts").textContent = `${chosen.steps[episode]} steps, ${seconds(chosen.steps[episode] / chosen.rate)}, ${outcome}${instruction}`;
  const found = Object.entries(flags?.flags[episode] ?? {});
  at("episode-flags").replaceChildren(...found.map(([name, text]) => make("li", `${name}: ${text} (${flags.meanings[name]})`)));
  const pieces = edits.pieces(episode);
  const length = chosen.steps[episode];
  at("pieces").replaceChildren(...pieces.map(({ first, stop, mark }) => {
    const bar = make("i", "", { class: mark ?? "" });
    Object.assign(bar.style, { left: `${(100 * first) / length}%`, width: `${(100 * (stop - first)) / length}%` });
    return bar;
  }));
  showEditButtons();
}

function showEditButtons() {
  if (episode === null) return;
  const deleted = !edits.pieces(episode).length;
  for (const button of at("edit-buttons").children) {
    const kind = button.dataset.edit;
    if (kind === "delete") button.textContent = deleted ? "Keep" : edits.pieces(episode).length > 1 ? "Delete piece" : "Delete";
    button.disabled = deleted ? kind !== "delete" : !edits.changes(kind, episode, placeOf(kind));
  }
}

// The step of an operation; null if it is one of the whole episode.
function placeOf(kind) {
  const pieces = edits.pieces(episode);
  if (["begin", "end", "split"].includes(kind)) return player.step;
  return pieces.length === 1 ? null : player.step;
}

// Leave a whole episode out of the new data set, or keep it again.
function deleteOrKeep(number) {
  if (edits.pieces(number).length) edit("delete", [number]);
  else {
    edits.restore(number);
    showAll();
  }
}

function editHere(kind) {
  if (episode === null) return;
  if (kind === "delete" && !edits.pieces(episode).length) deleteOrKeep(episode);
  else if (edits.changes(kind, episode, placeOf(kind))) edit(kind, [episode], placeOf(kind));
}

function press(event) {
  if (event.target.matches("input:not([type=range]), textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "z" && edits) return void undo();
  if (episode === null) return void pressInList(event);
  const actions = {
    " ": () => player.play(!player.playing),
    ArrowLeft: () => player.show(player.step - (event.shiftKey ? 10 : 1)),
    ArrowRight: () => player.show(player.step + (event.shiftKey ? 10 : 1)),
    Home: () => player.show(0),
    End: () => player.show(Infinity),
    "[": () => editHere("begin"),
    "]": () => editHere("end"),
    s: () => editHere("split"),
    "+": () => editHere("success"),
    "-": () => editHere("failure"),
    x: () => editHere("delete"),
    n: () => go(1),
    p: () => go(-1),
    Escape: closeEpisode,
  };
  if (!(event.key in actions) || (event.key === " " && event.target.matches("button, summary"))) return;
  event.preventDefault();
  actions[event.key]();
}

// --- edits ------------------------------------------------------------------------------------------------------------

function edit(kind, episodes, step = null) {
  edits.add(kind, episodes, step);
  at("saved").textContent = "";
  showAll();
}

function undo() {
  edits.remove(edits.operations.length - 1);
  showAll();
}

function showEdits() {
  sessionStorage.setItem(`edits ${chosen.path}`, JSON.stringify(edits.operations));
  const rows = edits.operations.map((operation, index) => {
    const button = make("button", "Remove", { "aria-label": `Remove: ${describe(operation)}` });
    button.addEventListener("click", () => {
      edits.remove(index);
      showAll();
    });
    return make("li", "", {}, make("span", describe(operation)), button);
  });
  at("edits").replaceChildren(...(rows.length ? rows : [make("li", "None yet: delete an episode, or open one.", { class: "quiet" })]));
  at("undo").disabled = !rows.length;
  const { episodes, steps } = edits.counts();
  at("edits-result").textContent = rows.length ? `${episodes} episodes, ${steps.toLocaleString("en")} steps would be saved` : "";
  showCommand();
}

let commands = 0;
async function showCommand() {
  const number = (commands += 1);
  at("save-button").disabled = true;
  const details = { path: chosen.path, name: at("name").value, edits: edits.options() };
  try {
    const { command, problem } = await ask("command", details);
    if (number !== commands) return;
    at("command").textContent = command;
    at("save-button").disabled = problem !== "" || !edits.operations.length || !edits.counts().episodes;
    if (problem && !at("saved").textContent) showSaved(problem, "bad");
    else if (at("saved").className === "bad") showSaved("");
  } catch (error) {
    if (number === commands) showSaved(error.message, "bad");
  }
}

function showSaved(text, kind = "") {
  at("saved").textContent = text;
  at("saved").className = kind;
}

async function save(event) {
  event.preventDefault();
  if (at("save-button").disabled) return;
  at("save-button").disabled = true;
  showSaved("Saving");
  try {
    const { summary } = await ask("save", { path: chosen.path, name: at("name").value, edits: edits.options() });
    showSaved(`Saved: ${summary}`, "good");
    await listSets();
  } catch (error) {
    showSaved(`Not saved: ${error.message}`, "bad");
  }
  showCommand();
}

function showProgress(saving) {
  at("progress").hidden = saving === null;
  if (saving === null) return;
  if (saving.total) Object.assign(at("progress"), { max: saving.total, value: saving.done });
  else at("progress").removeAttribute("value");
  at("progress").title = `${saving.name}: ${saving.done} of ${saving.total} episodes`;
}
