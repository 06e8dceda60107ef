// The measured quality of a connection: the round trip of a message, and the pictures of the last second.

import { at } from "/link.js";

const SHOW_MS = 1000;
const PING_MS = 250;
const WINDOW_MS = 3000; // time over which the median of the round trips is taken
const SLOW_MS = 150; // half of the silence after which the robot stops (teleop.browser.timeout)
const FEW_PICTURES = 5;

export class Figures {
  constructor() {
    this.clear();
    setInterval(() => this.show(), SHOW_MS);
  }

  // Forget what another connection measured.
  clear() {
    Object.assign(this, { sent: null, trips: [], pictures: [], began: performance.now(), hadPicture: false });
    for (const id of ["latency", "rate"]) at(id).textContent = "";
  }

  // Return what a message is to contain, so that it is answered; nothing while an answer is awaited.
  ping() {
    const now = performance.now();
    if (this.sent !== null || now - (this.trips.at(-1)?.at ?? 0) < PING_MS) return {};
    this.sent = now;
    return { ping: now };
  }

  pong(time) {
    if (time !== this.sent) return; // of another connection
    const now = performance.now();
    this.trips.push({ at: now, took: now - time });
    this.sent = null;
  }

  picture() {
    this.pictures.push(performance.now());
    this.hadPicture = true;
  }

  show() {
    const now = performance.now();
    this.trips = this.trips.filter(({ at: time }) => now - time < WINDOW_MS);
    this.pictures = this.pictures.filter((time) => now - time < 1000);
    const took = this.trips.map((trip) => trip.took).sort((a, b) => a - b);
    // An answer that is awaited for longer than the others took is the measurement.
    const awaited = this.sent === null ? 0 : now - this.sent;
    const median = Math.max(took[Math.floor(took.length / 2)] ?? 0, awaited > SLOW_MS ? awaited : 0);
    if (took.length || awaited > SLOW_MS) write("latency", `${Math.round(median)} ms`, median > SLOW_MS);
    if (this.hadPicture && now - this.began > SHOW_MS) {
      write("rate", `${this.pictures.length} fps`, this.pictures.length < FEW_PICTURES);
    }
  }
}

function write(id, text, isBad) {
  at(id).textContent = text;
  at(id).classList.toggle("waiting", isBad);
}
