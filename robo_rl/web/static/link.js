// The connection of a page to its server: it shows the token, and reconnects automatically after a loss.

const STATES = { connecting: "connecting", connected: "connected", lost: "connection lost", refused: "not connected", ended: "ended" };
const ASK = `
<form id="ask" class="notice" hidden>
  <label>This page needs the address or the token that robo-rl printed.
    <input autocomplete="username" value="robo-rl" hidden><input id="token" type="password" autocomplete="current-password"></label>
  <button>Connect</button>
</form>`;
const ALERT = `
<p id="unconfirmed" class="notice danger" role="alert" hidden>
  Emergency stop NOT CONFIRMED: robots may still move. Stop them at the robot; this page tries again.
</p>`;
const SILENCE_MS = 6000; // the server sends a message every second
const RETRY_MS = [300, 1000, 2000];
const REFUSED = 4401;
const TAKEN = 4409; // another page has the role that only one page can have
const ENDED = 4410; // the command has ended
const INSIST_MS = 50;
const CONFIRM_MS = 500; // an emergency stop that is not confirmed by then is sent again, on a new connection
const LONGEST_CONFIRM_MS = 4000; // limit of the doubling of that time: a network may need long to connect

export const at = (id) => document.getElementById(id);

// Return the token in the address, and remove it from there, or the token of this tab before it was reloaded.
function token() {
  if (location.hash.length > 1) {
    sessionStorage.setItem("token", decodeURIComponent(location.hash.slice(1)));
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem("token");
}

// Connect. `handlers`: `message(object)`, `picture(heading, blob)`, and `state(name)`: connecting, connected, lost,
// refused (no further attempts until the page is given another token), taken (until the page is touched) or ended (what
// the page displays remains). The page shows the state in #connection, in the words of `states` if there are any; without a connection its buttons with
// data-linked are disabled. `path` is the websocket of the server.
export class Link {
  constructor(handlers, states = {}, path = "/socket") {
    this.handlers = handlers;
    this.states = { ...STATES, ...states };
    this.path = path;
    document.querySelector("main").insertAdjacentHTML("beforebegin", ASK);
    at("ask").addEventListener("submit", (event) => {
      event.preventDefault();
      const entered = at("token").value.trim();
      location.hash = /^https?:.*#/.test(entered) ? entered.slice(entered.indexOf("#")) : encodeURIComponent(entered);
    });
    this.failures = 0;
    this.heard = 0;
    setInterval(() => this.watch(), 500);
    addEventListener("hashchange", () => this.open());
    this.open();
  }

  get connected() {
    return this.failures < 0;
  }

  show(state) {
    const connected = state === "connected";
    const ended = state === "ended";
    at("connection").textContent = this.states[state];
    at("connection").className = `chip ${connected ? "good" : ended ? "" : "bad"}`;
    at("ask").hidden = state !== "refused";
    document.body.classList.toggle("stale", !connected && !ended);
    for (const button of document.querySelectorAll("[data-linked]")) button.disabled = !connected;
    this.handlers.state?.(state);
  }

  open() {
    const secret = token();
    this.failures = Math.max(this.failures, 0);
    clearTimeout(this.retry);
    this.socket?.close();
    if (!secret) {
      this.show("refused");
      return;
    }
    this.show(this.failures ? "lost" : "connecting");
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${this.path}`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.heard = performance.now();
    socket.onopen = () => socket.send(JSON.stringify({ token: secret }));
    socket.onmessage = (event) => socket === this.socket && this.hear(event.data);
    socket.onclose = (event) => socket === this.socket && this.lost(event.code);
  }

  hear(data) {
    this.heard = performance.now();
    if (this.failures >= 0) {
      this.failures = -1;
      this.show("connected");
    }
    if (typeof data === "string") {
      this.handlers.message(JSON.parse(data));
      return;
    }
    const bytes = new Uint8Array(data);
    const end = bytes.indexOf(10);
    const heading = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
    this.handlers.picture(heading, new Blob([bytes.subarray(end + 1)], { type: heading.type ?? "image/jpeg" }));
  }

  lost(code) {
    this.socket = null;
    if (code === REFUSED) {
      sessionStorage.removeItem("token");
      this.show("refused");
      return;
    }
    if (code === ENDED) {
      this.show("ended");
      return;
    }
    this.failures = Math.max(this.failures, 0) + 1;
    if (code === TAKEN) {
      // An automatic reconnection would take the role back, and the other page would do the same, forever.
      this.show("taken");
      addEventListener("pointerdown", () => this.open(), { once: true });
      return;
    }
    this.show("lost");
    this.retry = setTimeout(() => this.open(), RETRY_MS[Math.min(this.failures, RETRY_MS.length) - 1]);
  }

  // The loss of a network causes no event.
  watch() {
    if (this.socket && performance.now() - this.heard > SILENCE_MS) {
      const socket = this.socket;
      this.lost();
      socket.close();
    }
  }

  send(message) {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }
}

// The emergency stops that were pressed on a page. Each is sent until the server confirms that it is pressed:
// a connection may have died unnoticed. The page says so meanwhile.
export class EmergencyStops {
  constructor(link) {
    this.link = link;
    document.querySelector("header").insertAdjacentHTML("afterend", ALERT);
    this.alert = at("unconfirmed");
    this.unconfirmed = new Map(); // messages by the names that confirm them
    setInterval(() => this.insist(), INSIST_MS);
  }

  press(name, message) {
    // Repeated presses do not delay the repetition on a new connection.
    if (this.unconfirmed.has(name)) return;
    if (!this.unconfirmed.size) Object.assign(this, { tried: performance.now(), patience: CONFIRM_MS });
    this.unconfirmed.set(name, message);
    this.saidOn = null;
    this.insist();
  }

  confirm(name) {
    this.unconfirmed.delete(name);
    this.alert.hidden = this.alert.hidden || !this.unconfirmed.size;
  }

  insist() {
    if (!this.unconfirmed.size) return;
    const { socket, connected } = this.link;
    if (socket !== this.saidOn && [...this.unconfirmed.values()].every((message) => this.link.send(message))) {
      this.saidOn = socket;
    }
    const late = performance.now() - this.tried > this.patience;
    if (late || !connected) this.alert.hidden = false;
    if (!late) return;
    this.tried = performance.now();
    this.patience = Math.min(2 * this.patience, LONGEST_CONFIRM_MS);
    this.link.open();
  }
}

// Make an element with text, attributes and children.
export function make(tag, text = "", attributes = {}, ...children) {
  const element = document.createElement(tag);
  if (text !== "") element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const COPIED_MS = 2000;

// Make a button copy the text of an element.
export function copies(button, source) {
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source); // the browser does not let pages copy
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
  });
}

const ARMED_MS = 3000;

// Return whether a button that ends something, with data-confirm, has been pressed twice; another is pressed once.
export function confirmed(button) {
  if (!button.dataset.confirm || button.dataset.armed) return true;
  const text = button.textContent;
  button.dataset.armed = "yes";
  button.textContent = button.dataset.confirm;
  setTimeout(() => {
    delete button.dataset.armed;
    button.textContent = text;
  }, ARMED_MS);
  return false;
}

// Show a picture in an image element, and free the previous one.
export function showPicture(image, blob) {
  const before = image.src;
  image.src = URL.createObjectURL(blob);
  image.onload = () => before.startsWith("blob:") && URL.revokeObjectURL(before);
}

// A number, or a share in percent, in few characters.
export function shorten(value, share) {
  if (share) return `${Math.round(100 * value)} %`;
  const size = Math.abs(value);
  return size !== 0 && (size < 0.001 || size >= 1e5) ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}
