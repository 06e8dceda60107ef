// The alarm: a tone, a vibration and a notification when a robot or a run needs a person, until the page is touched.

import { at, make } from "/link.js";

const REPEAT_MS = 5000;
const BEEPS = [0, 0.3, 0.6]; // beginnings [s]
const BEEP_SECONDS = 0.2;
const BEEP_HERTZ = 880;
const LOUDNESS = 0.3;
const MARK = "(!) ";

// `button` switches it on and off: browsers allow sound only after a person has pressed something.
export class Alarm {
  constructor(button) {
    this.button = button;
    this.reasons = new Map(); // by kind: texts that hold at present
    this.ringing = []; // texts that nobody has seen yet
    at("main").before(make("p", "", { id: "alarm-text", class: "notice danger", role: "alert", hidden: "" }));
    button.addEventListener("click", () => (this.sound ? this.switchOff() : this.switchOn()));
    for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => this.silence());
    document.addEventListener("visibilitychange", () => this.keepAwake());
    setInterval(() => this.ring(), REPEAT_MS);
  }

  switchOn() {
    this.sound = new AudioContext();
    this.button.setAttribute("aria-pressed", "true");
    if ("Notification" in window && Notification.permission === "default") Notification.requestPermission();
    this.keepAwake();
  }

  switchOff() {
    this.sound.close();
    this.sound = null;
    this.button.setAttribute("aria-pressed", "false");
    this.lock?.release();
    this.lock = null;
    this.silence();
  }

  // A page hears nothing while a phone sleeps. Over HTTP, and with little battery, a browser refuses.
  async keepAwake() {
    if (!this.sound || document.hidden || !navigator.wakeLock) return;
    this.lock = await navigator.wakeLock.request("screen").catch(() => null);
  }

  // Replace the reasons of one kind; those that were not there before ring.
  update(kind, texts) {
    const before = this.reasons.get(kind) ?? [];
    this.reasons.set(kind, texts);
    this.raise(texts.filter((text) => !before.includes(text)));
  }

  // Ring for events.
  raise(texts) {
    if (!this.sound || !texts.length) return;
    const time = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    this.ringing.push(...texts.map((text) => `${time} ${text}`));
    at("alarm-text").textContent = `Alarm: ${this.ringing.join("; ")}. Touch the page to silence it.`;
    at("alarm-text").hidden = false;
    document.title = this.titled(document.title);
    if ("Notification" in window && Notification.permission === "granted") this.notify(texts.join("; "));
    this.ring();
  }

  notify(text) {
    try {
      new Notification("robo-rl", { body: text, tag: "robo-rl alarm", icon: "/icon.svg" });
    } catch {
      // Chrome on Android has notifications of installed pages alone.
    }
  }

  ring() {
    if (!this.ringing.length) return;
    navigator.vibrate?.([300, 150, 300, 150, 300]);
    this.sound.resume();
    const volume = new GainNode(this.sound, { gain: LOUDNESS });
    volume.connect(this.sound.destination);
    for (const start of BEEPS) {
      const tone = new OscillatorNode(this.sound, { frequency: BEEP_HERTZ });
      tone.connect(volume);
      tone.start(this.sound.currentTime + start);
      tone.stop(this.sound.currentTime + start + BEEP_SECONDS);
    }
  }

  silence() {
    this.ringing = [];
    at("alarm-text").hidden = true;
    document.title = this.titled(document.title);
    navigator.vibrate?.(0);
  }

  // The title of the page, marked while the alarm rings.
  titled(title) {
    const plain = title.replace(MARK, "");
    return this.ringing.length ? MARK + plain : plain;
  }
}
