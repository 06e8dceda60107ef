// The pads that a person touches. Arrows show the directions in which they move the robot.

import { make } from "/link.js";

const KINDS = [
  { up: "x", left: "y", words: { up: "forward", down: "back", left: "left", right: "right" }, pictured: { up: "away", down: "closer" } },
  { up: "z", left: "yaw", words: { up: "up", down: "down", left: "turn", right: "turn" }, glyphs: { left: "↺", right: "↻" } },
  { up: "pitch", left: "roll", words: { up: "pitch", down: "pitch", left: "roll", right: "roll" } },
  { up: "throttle", left: "steering", words: { up: "forward", down: "back", left: "left", right: "right" } },
];
const GLYPHS = { up: "▲", down: "▼", left: "◀", right: "▶" };
const PRESS_MS = 15;
const LIMIT_MS = 35;

const limit = (value) => Math.max(-1, Math.min(1, value));

// Vibrate, on devices that can: a pattern of times [ms].
export function vibrate(pattern) {
  navigator.vibrate?.(pattern);
}

// The pads for the elements of an action in `container`; `changed` is called when a touch ends.
export class Pads {
  constructor(container, changed) {
    Object.assign(this, { container, changed });
    this.touched = new Map(); // deflections by the touched pad; a released touch no longer counts
  }

  get moves() {
    return this.touched.size > 0;
  }

  get axes() {
    return Object.assign({}, ...this.touched.values());
  }

  release() {
    this.touched.clear();
    for (const knob of this.container.querySelectorAll(".pad i")) knob.style.transform = "";
  }

  // Replace the pads by those for `elements`; `label(element, direction)` returns the key of a motion. `isPictured`:
  // whether the directions are those of the picture.
  build(elements, label, isPictured) {
    this.release(); // a pad that is replaced receives no event when its touch ends
    const shown = KINDS.filter(({ up, left }) => elements.includes(up) || elements.includes(left));
    this.container.replaceChildren(...shown.map((kind) => this.make(kind, elements, label, isPictured)));
  }

  make({ up, left, words: plain, pictured = {}, glyphs = {} }, elements, label, isPictured) {
    const words = isPictured ? { ...plain, ...pictured } : plain;
    const knob = make("i");
    const ends = { up: [up, 1], down: [up, -1], left: [left, 1], right: [left, -1] };
    const arrows = Object.entries(ends).filter(([, [element]]) => elements.includes(element)).map(([side, [element, sign]]) =>
      make("span", "", { class: side }, make("b", glyphs[side] ?? GLYPHS[side]), make("span", words[side]),
        make("kbd", label(element, sign))));
    const pad = make("div", "", { class: "pad", "data-pad": `${up}-${left}` }, ...arrows, knob);
    let atLimit = false;
    const move = (event) => {
      const box = pad.getBoundingClientRect();
      const right = limit((2 * (event.clientX - box.left)) / box.width - 1);
      const down = limit((2 * (event.clientY - box.top)) / box.height - 1);
      knob.style.transform = `translate(${right * box.width * 0.36}px, ${down * box.height * 0.36}px)`;
      const wanted = { [up]: -down, [left]: -right };
      this.touched.set(pad, Object.fromEntries(Object.entries(wanted).filter(([name]) => elements.includes(name))));
      const wasAtLimit = atLimit;
      atLimit = Math.max(...Object.values(this.touched.get(pad)).map(Math.abs)) >= 1;
      if (atLimit && !wasAtLimit) vibrate(LIMIT_MS);
    };
    const end = () => {
      atLimit = false;
      knob.style.transform = "";
      if (this.touched.delete(pad)) this.changed();
    };
    pad.addEventListener("pointerdown", (event) => {
      pad.setPointerCapture(event.pointerId);
      vibrate(PRESS_MS);
      move(event);
    });
    pad.addEventListener("pointermove", (event) => {
      if (this.touched.has(pad) && pad.hasPointerCapture(event.pointerId)) move(event);
    });
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) pad.addEventListener(name, end);
    return pad;
  }
}
