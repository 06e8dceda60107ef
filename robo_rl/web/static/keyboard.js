// The keys of a keyboard, which are those of the other devices with keys: the server sends them as `about.keys`.

const NATIVE = ["enter", "space"]; // a button that was reached by the tab key is pressed by these

// Return the name that keys of `about.keys` have: "w", "up", "space".
function named(key) {
  return key === " " ? "space" : key.toLowerCase().replace("arrow", "");
}

// `may()` returns whether keys move the robot now; `changed` is called when a motion begins or ends, and `tap` with the
// name of a button that was pressed.
export class Keyboard {
  constructor(may, changed, tap) {
    Object.assign(this, { may, changed, tap });
    this.table = { motions: {}, buttons: {}, level: 1 };
    this.held = new Map(); // names by physical key: what a key means may change while it is held
    addEventListener("keydown", (event) => this.press(event));
    addEventListener("keyup", (event) => this.lift(event));
  }

  // Return whether a key moves the robot.
  get moves() {
    return this.held.size > 0;
  }

  get axes() {
    const axes = {};
    for (const name of this.held.values()) {
      const [element, direction] = this.table.motions[name];
      axes[element] = (axes[element] ?? 0) + direction * this.table.level;
    }
    return axes;
  }

  press(event) {
    // Without the key's release, as macOS has it while Command is held, a motion would not end.
    if (event.ctrlKey || event.metaKey || event.altKey) this.release();
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select")) return;
    const name = named(event.key);
    const button = this.table.buttons[name];
    const moves = name in this.table.motions;
    const isAsked = document.querySelector("dialog[open]") !== null;
    if (button !== "emergency_stop") {
      if (isAsked || (NATIVE.includes(name) && event.target.closest?.("button:focus-visible"))) return;
      if (!button && !moves) return;
    }
    event.preventDefault(); // arrows and space scroll
    if (event.repeat) return; // a key that was held when motion was stopped has to be pressed again
    if (button) this.tap(button);
    if (!moves || !this.may()) return;
    this.held.set(event.code, name);
    this.changed();
  }

  lift(event) {
    if (this.held.delete(event.code)) this.changed();
  }

  release() {
    if (!this.moves) return;
    this.held.clear();
    this.changed();
  }

  // Use other keys; none is held after that.
  use(table) {
    this.release();
    this.table = table;
  }

  // Return the key of a motion or button, as people read it, or an empty text.
  label(element, direction) {
    const entries = direction ? this.table.motions : this.table.buttons;
    const matches = ([, what]) => (direction ? what[0] === element && what[1] === direction : what === element);
    const name = Object.entries(entries).find(matches)?.[0] ?? "";
    return { up: "↑", down: "↓", left: "←", right: "→", enter: "↵", backspace: "⌫", escape: "esc" }[name] ?? name;
  }
}
