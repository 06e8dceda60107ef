// The page on which a person drives a robot, by touched pads or by the pose of a WebXR controller or phone.
// It sends its state many times a second; the robot holds still when these messages end.

import { Held } from "/held.js";
import { EmergencyStops, Link, at, make, showPicture } from "/link.js";

const SAY_MS = 50;
const STOPPED = /^(last episode: )?stopped/; // a line that says why the robot was stopped
const STOPPED_MS = 8000; // time for which such lines stay, so that they can be read
const EMERGENCY = "emergency_stop";
const POSE_MS = 150; // an older pose counts as lost
const POSE_METRES = 0.12; // displacement of a full deflection
const POSE_RADIANS = 0.6;
const PADS = [
  { title: "forward, left", up: "x", left: "y" },
  { title: "up, turn", up: "z", left: "yaw" },
  { title: "pitch, roll", up: "pitch", left: "roll" },
  { title: "throttle, steering", up: "throttle", left: "steering" },
];

const pads = new Map(); // deflections by the touched pad; a released touch no longer counts
let gripped = null; // the WebXR input source that is gripped, and its pose at that moment
let pose = null; // deflections by pose while the source is gripped, and the time when it was seen
let tapped = [];
let connected = false;
let elements = [];
let lines = []; // the newest ones
let stoppedUntil = 0; // end of the time for which lines about a stop stay

const link = new Link({
  message({ about, lines: news, heard, held: holds, answer }) {
    if (about) showAbout(about);
    if (heard?.includes(EMERGENCY)) {
      stops.confirm(EMERGENCY);
      at("lines").textContent = "Emergency stop: confirmed";
    }
    if (news) showLines(news);
    if (holds) showHeld(holds);
    if (answer) showAnswer(answer);
  },
  picture: (_, blob) => showPicture(at("camera"), blob),
  state(name) {
    connected = name === "connected";
    if (!connected) {
      release();
      tapped = [];
    }
  },
}, { taken: "another page drives: touch to drive here" });
const stops = new EmergencyStops(link);
const held = new Held(link, showAnswer);
at("holds").after(make("p", "", { id: "answer", role: "status" }));

function say() {
  if (pose && performance.now() - pose.seen > POSE_MS) pose = null;
  const axes = Object.assign({}, ...pads.values(), pose?.axes ?? {});
  const held = pads.size || pose ? ["deadman"] : [];
  if (connected && link.send({ axes, held, tapped })) tapped = [];
}
setInterval(say, SAY_MS);

// A tap without a connection would come as a surprise later, except for the emergency stop.
function tap(name) {
  if (name === EMERGENCY) stops.press(EMERGENCY, { tapped: [EMERGENCY] });
  else if (connected) tapped.push(name);
  else at("lines").textContent = "Not sent: there is no connection";
  say();
}

// Lines about a stop that needs no re-arming, as of a filter, stay for a while: the next episode begins soon.
function showLines(news) {
  lines = news;
  const now = performance.now();
  const stopped = lines.some((line) => STOPPED.test(line)) && !held.holds.length;
  if (now < stoppedUntil && !stopped) return;
  if (stopped && now >= stoppedUntil) {
    stoppedUntil = now + STOPPED_MS;
    setTimeout(() => showLines(lines), STOPPED_MS);
  }
  at("lines").textContent = lines.filter((line) => line).join(" · ");
  at("lines").classList.toggle("bad", stopped);
}

// While a latch holds the robot, nothing moves: the pads make room for who stopped it, why, and what to do.
function showHeld(holds) {
  if (holds.length) release(); // after re-arming a new touch is required
  else at("answer").textContent = "";
  held.show(holds);
  document.body.classList.toggle("stopped", holds.length > 0);
}

function showAnswer(text) {
  at("answer").textContent = at("lines").textContent = text;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-tap]");
  if (button) tap(button.dataset.tap);
});
document.addEventListener("visibilitychange", () => document.hidden && release());
addEventListener("blur", release);
addEventListener("contextmenu", (event) => event.preventDefault());

function release() {
  pads.clear();
  letGo();
  for (const knob of document.querySelectorAll(".pad i")) knob.style.transform = "";
}

// --- touch ------------------------------------------------------------------------------------------------------------

function showAbout(about) {
  release(); // a pad that is replaced receives no event when its touch ends
  elements = about.elements.length ? about.elements : ["x", "y", "z", "roll", "pitch", "yaw", "gripper"];
  at("task").textContent = about.task;
  at("gripper").hidden = !elements.includes("gripper");
  const shown = PADS.filter((pad) => elements.includes(pad.up) || elements.includes(pad.left));
  at("pads").replaceChildren(...shown.map(makePad));
}

function makePad({ title, up, left }) {
  const knob = make("i");
  const pad = make("div", "", { class: "pad", "data-pad": `${up}-${left}` }, make("span", title), knob);
  const move = (event) => {
    const box = pad.getBoundingClientRect();
    const limit = (value) => Math.max(-1, Math.min(1, value));
    const right = limit((2 * (event.clientX - box.left)) / box.width - 1);
    const down = limit((2 * (event.clientY - box.top)) / box.height - 1);
    knob.style.transform = `translate(${right * box.width * 0.36}px, ${down * box.height * 0.36}px)`;
    pads.set(pad, only({ [up]: -down, [left]: -right }));
  };
  const end = () => {
    pads.delete(pad);
    knob.style.transform = "";
  };
  pad.addEventListener("pointerdown", (event) => {
    pad.setPointerCapture(event.pointerId);
    move(event);
  });
  pad.addEventListener("pointermove", (event) => {
    if (pads.has(pad) && pad.hasPointerCapture(event.pointerId)) move(event);
  });
  for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) pad.addEventListener(name, end);
  return pad;
}

function only(axes) {
  return Object.fromEntries(Object.entries(axes).filter(([name]) => elements.includes(name)));
}

// --- pose -------------------------------------------------------------------------------------------------------------

// Browsers offer WebXR on pages that came over HTTPS, or from this machine.
for (const mode of ["immersive-ar", "immersive-vr"]) {
  navigator.xr?.isSessionSupported(mode).then((supported) => {
    if (!supported || !at("pose").disabled) return;
    at("pose").disabled = false;
    at("pose").addEventListener("click", () => driveByPose(mode));
  });
}
at("pose").title = navigator.xr ? "Move the robot as you move the controller or phone" : "This browser has no WebXR";

function letGo() {
  gripped = pose = null;
}

// The deflection is the displacement of the pose from where it was gripped.
async function driveByPose(mode) {
  const session = await navigator.xr.requestSession(mode, { optionalFeatures: ["local-floor"] });
  const canvas = document.createElement("canvas");
  session.updateRenderState({ baseLayer: new XRWebGLLayer(session, canvas.getContext("webgl", { xrCompatible: true })) });
  const space = await session.requestReferenceSpace("local");
  session.onselectstart = ({ inputSource }) => (gripped = { source: inputSource, start: null });
  session.onselectend = letGo;
  session.onsqueezestart = () => tap("gripper");
  session.onend = letGo;
  // Beside a menu, or with the headset taken off, the controller sends no events, not even the release of its trigger.
  session.onvisibilitychange = () => session.visibilityState !== "visible" && letGo();
  session.requestAnimationFrame(function frame(_, xr) {
    session.requestAnimationFrame(frame);
    if (!gripped) return;
    // A phone has no controller: the phone itself is moved.
    const found = gripped.source.gripSpace ? xr.getPose(gripped.source.gripSpace, space) : xr.getViewerPose(space);
    if (!found) {
      pose = null; // not seen: released
      return;
    }
    gripped.start ??= found.transform;
    pose = { axes: only(deflections(gripped.start, found.transform)), seen: performance.now() };
  });
}

// WebXR: x right, y up, z to the back; the robot: x forward, y left, z up.
export function deflections(start, now) {
  const moved = ["x", "y", "z"].map((axis) => (now.position[axis] - start.position[axis]) / POSE_METRES);
  const [a, b] = [now.orientation, start.orientation];
  // The rotation from the start to now, in the room's frame: now times the inverse of the start.
  const w = a.w * b.w + a.x * b.x + a.y * b.y + a.z * b.z;
  const turned = [
    -a.w * b.x + a.x * b.w - a.y * b.z + a.z * b.y,
    -a.w * b.y + a.y * b.w - a.z * b.x + a.x * b.z,
    -a.w * b.z + a.z * b.w - a.x * b.y + a.y * b.x,
  ];
  const sine = Math.hypot(...turned);
  const angle = 2 * Math.atan2(sine, Math.abs(w)) * Math.sign(w || 1);
  const [right, up, back] = turned.map((part) => (sine ? ((part / sine) * angle) / POSE_RADIANS : 0));
  const limit = (value) => Math.max(-1, Math.min(1, value));
  const axes = { x: -moved[2], y: -moved[0], z: moved[1], roll: -back, pitch: -right, yaw: up };
  return Object.fromEntries(Object.entries(axes).map(([name, value]) => [name, limit(value)]));
}
