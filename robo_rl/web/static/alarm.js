// The alarm: a tone, a vibration and a notification when a robot or a run needs a person. A touch of the page ends the
// sound; the text stays until it is closed.

import { at, make } from "/link.js";

const REPEAT_MS = 5000;
const BEEPS = [0, 0.3, 0.6]; // beginnings [s]
const BEEP_SECONDS = 0.2;
const BEEP_HERTZ = 880;
const LOUDNESS = 0.3;
const MARK = "(!) ";
const MOST_SHOWN = 5;

// `button` switches it on and off: browsers allow sound only after a person has pressed something.
export class Alarm {
  constructor(button) {
    this.button = button;
    this.reasons = new Map(); // by kind: texts that hold at present
    this.texts = []; // that nobody has closed yet, the newest last
    this.isRinging = false;
    const close = make("button", "Close", { id: "alarm-close" });
    const box = make("section", "", { id: "alarm-box", class: "notice danger", role: "alert", hidden: "" });
    box.append(make("span", "", { id: "alarm-text" }), close);
    document.body.append(box);
    close.addEventListener("click", () => this.close());
    button.addEventListener("click", () => (this.sound ? this.switchOff() : this.switchOn()));
    for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => this.silence());
    document.addEventListener("visibilitychange", () => this.keepAwake());
    setInterval(() => this.ring(), REPEAT_MS);
  }

  switchOn() {
    this.sound = new AudioContext();
    if (navigator.audioSession) navigator.audioSession.type = "playback"; // an iPhone would mute it with its switch
    this.beep([0]); // so that the person hears how loud it is
    this.button.setAttribute("aria-pressed", "true");
    if ("Notification" in window && Notification.permission === "default") Notification.requestPermission();
    this.keepAwake();
  }

  switchOff() {
    this.sound.close();
    this.sound = null;
    this.button.setAttribute("aria-pressed", "false");
    this.keepAwake();
    this.close();
  }

  // A page hears nothing while a phone sleeps. Over HTTP, and with little battery, a browser refuses.
  async keepAwake() {
    if (this.sound && !document.hidden && navigator.wakeLock && !this.lock) {
      this.lock = await navigator.wakeLock.request("screen").catch(() => null);
      this.lock?.addEventListener("release", () => (this.lock = null));
    }
    if (!this.sound) this.lock?.release();
  }

  // Replace the reasons of one kind. Those that were not there before ring, except the first ones.
  update(kind, texts) {
    const before = this.reasons.get(kind) ?? texts;
    this.reasons.set(kind, texts);
    this.raise(texts.filter((text) => !before.includes(text)));
  }

  // Forget the reasons of one kind: the next ones are the first.
  forget(kind) {
    this.reasons.delete(kind);
  }

  // Ring for events.
  raise(texts) {
    if (!this.sound || !texts.length) return;
    const time = new Date().toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
    this.texts.push(...texts.map((text) => `${time} ${text}`));
    const older = this.texts.length > MOST_SHOWN ? ` (and ${this.texts.length - MOST_SHOWN} before)` : "";
    at("alarm-text").textContent = `Alarm: ${this.texts.slice(-MOST_SHOWN).join("; ")}${older}`;
    at("alarm-box").hidden = false;
    document.title = this.titled(document.title);
    this.notify(texts.join("; "));
    this.isRinging = true;
    this.ring();
  }

  notify(text) {
    if (!("Notification" in window) || Notification.permission !== "granted") return;
    try {
      new Notification("robo-rl", { body: text, tag: "robo-rl alarm", renotify: true, icon: "/icon.svg" });
    } catch {
      // Chrome on Android shows notifications of installed pages only.
    }
  }

  ring() {
    if (!this.isRinging) return;
    navigator.vibrate?.([300, 150, 300, 150, 300]);
    this.beep(BEEPS);
  }

  beep(starts) {
    this.sound.resume();
    const volume = new GainNode(this.sound, { gain: LOUDNESS });
    volume.connect(this.sound.destination);
    for (const start of starts) {
      const tone = new OscillatorNode(this.sound, { frequency: BEEP_HERTZ });
      tone.connect(volume);
      tone.start(this.sound.currentTime + start);
      tone.stop(this.sound.currentTime + start + BEEP_SECONDS);
    }
  }

  silence() {
    if (this.isRinging) navigator.vibrate?.(0);
    this.isRinging = false;
  }

  close() {
    this.silence();
    this.texts = [];
    at("alarm-box").hidden = true;
    document.title = this.titled(document.title);
  }

  // The title of the page, marked while an alarm is open.
  titled(title) {
    const plain = title.replace(MARK, "");
    return this.texts.length ? MARK + plain : plain;
  }
}
