// The form that starts a run or a sweep, and the commands that pages have started.

import { at, confirmed, copies, make } from "/link.js";

const WAIT_MS = 300; // after an input, until the command line is updated
const COLOURS = { running: "good", ended: "", interrupted: "waiting", "ended on request": "waiting" }; // others are red

export class Start {
  // `ask(request, details)` returns a promise of the server's answer.
  constructor(ask) {
    this.ask = ask;
    this.form = at("start");
    this.changes = 0; // inputs so far: an answer to an earlier one is not shown
    this.boxes = new Map(); // of started commands, by name
    this.form.addEventListener("input", () => this.change());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.request("start");
    });
    at("start-check").addEventListener("click", () => this.request("check"));
    at("start-details").addEventListener("toggle", () => this.open());
    for (const button of document.querySelectorAll(".to-start")) {
      button.addEventListener("click", () => {
        at("start-details").open = true;
        at("start-section").scrollIntoView({ block: "start" });
      });
    }
    copies(at("start-copy"), at("start-command"));
  }

  // Load the choices of the form when it is opened: to find them takes the server several seconds.
  async open() {
    if (!this.form.hidden || !at("start-details").open) return;
    try {
      const { refused, choices, chosen, limit } = await this.ask("choices");
      at("start-state").textContent = refused || `At most ${limit} ${limit === 1 ? "command runs" : "commands run"} at a time. Each continues when this page and its server end.`;
      if (refused) return;
      for (const [name, values] of Object.entries(choices)) {
        this.form.elements[name].replaceChildren(...values.map((value) => make("option", value)));
        this.form.elements[name].value = chosen[name];
      }
      this.form.hidden = false;
      this.change();
    } catch (error) {
      at("start-state").textContent = error.message;
    }
  }

  // Offer data sets as demonstrations.
  offer(sets) {
    const { data } = this.form.elements;
    const value = data.value;
    const options = sets.map(({ path, name, task }) => make("option", `${name} (${task})`, { value: path }));
    data.replaceChildren(data.options[0], ...options);
    data.value = sets.some(({ path }) => path === value) ? value : "";
  }

  values() {
    const { sweep, ...texts } = Object.fromEntries(new FormData(this.form));
    return { ...texts, sweep: sweep !== "" };
  }

  change() {
    this.changes += 1;
    at("sweep-note").hidden = !this.values().sweep;
    at("start-go").textContent = this.values().sweep ? "Start the sweep" : "Start the run";
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.compose(), WAIT_MS);
  }

  async compose() {
    const change = this.changes;
    try {
      const { command } = await this.ask("compose", { form: this.values() });
      if (change === this.changes) this.tell(command, "");
    } catch (error) {
      if (change === this.changes) this.tell("", error.message, "bad");
    }
  }

  tell(command, text, kind = "") {
    at("start-command").textContent = command;
    at("start-copy").hidden = command === "";
    at("start-problem").textContent = text;
    at("start-problem").className = `all ${kind}`;
  }

  // Check the form; also start it if `name` is "start".
  async request(name) {
    clearTimeout(this.timer);
    this.changes += 1; // the answer about the command line alone is not awaited any more
    const buttons = [at("start-check"), at("start-go")];
    for (const button of buttons) button.disabled = true;
    this.tell(at("start-command").textContent, "Checking the configuration");
    try {
      const { command, problem, runs, started } = await this.ask(name, { form: this.values() });
      const steps = [...new Set(runs.map((run) => run.steps.toLocaleString("en")))].join(" or ");
      const counted = `${runs.length === 1 ? "one run" : `${runs.length} runs`} of ${steps} steps`;
      const text = problem || (started ? `Started: ${counted}, which appear${runs.length === 1 ? "s" : ""} under All runs` : `Valid: ${counted}`);
      this.tell(command, text, problem ? "bad" : "good");
    } catch (error) {
      this.tell(at("start-command").textContent, error.message, "bad");
    }
    for (const button of buttons) button.disabled = false;
  }

  // Show started commands: {name, command, state, can_end, output}.
  show(commands) {
    const boxes = commands.map((command) => this.update(command));
    for (const name of this.boxes.keys()) if (!commands.some((command) => command.name === name)) this.boxes.delete(name);
    const same = boxes.length === at("started").children.length && boxes.every((box, index) => box === at("started").children[index]);
    if (!same) at("started").replaceChildren(...boxes);
  }

  // Say how many further commands run.
  count(more) {
    at("more-started").textContent = more ? `${more} more ${more === 1 ? "command runs" : "commands run"}, which pages started` : "";
  }

  update({ name, command, state, can_end, output }) {
    const isNew = !this.boxes.has(name);
    const box = this.boxes.get(name) ?? this.add(name);
    box.command.textContent = command;
    box.state.textContent = state;
    box.state.className = `chip ${COLOURS[state] ?? "bad"}`;
    box.end.hidden = !can_end;
    if (box.state.textContent !== "ended") box.details.open ||= isNew;
    const text = output.trim() || "No output yet";
    if (box.output.textContent !== text) {
      box.output.textContent = text;
      box.output.scrollTop = box.output.scrollHeight;
    }
    return box.whole;
  }

  add(name) {
    const box = { command: make("code"), state: make("span"), output: make("pre", "", { tabindex: "0" }) };
    box.end = make("button", "End", { "data-confirm": "Press again to end", title: "As SIGTERM: the run writes a checkpoint and ends, as does the sweep" });
    box.end.addEventListener("click", async () => {
      if (!confirmed(box.end)) return;
      try {
        await this.ask("end", { name });
      } catch (error) {
        box.output.textContent = error.message;
      }
    });
    box.details = make("details", "", {}, make("summary", "Output"), box.output);
    box.whole = make("div", "", { class: "started" }, make("div", "", { class: "head" }, box.command, box.state, box.end), box.details);
    this.boxes.set(name, box);
    return box;
  }
}
