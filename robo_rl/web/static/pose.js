// Driving by the pose of a WebXR controller or phone: its displacement from where it was gripped is the deflection.

import { at } from "/link.js";

const POSE_MS = 150; // an older pose counts as lost
const POSE_METRES = 0.12; // displacement of a full deflection
const POSE_RADIANS = 0.6;

let gripped = null; // the WebXR input source that is gripped, and its pose at that moment
let pose = null; // deflections by pose while the source is gripped, and the time when it was seen

// Return the deflections by the pose of the gripped source; null while none is gripped and seen.
export function poseAxes() {
  if (pose && performance.now() - pose.seen > POSE_MS) pose = null;
  return pose?.axes ?? null;
}

export function letGo() {
  gripped = pose = null;
}

// Show the button if this browser has WebXR; `squeezed` is called when the controller is squeezed.
export function offerPose(squeezed) {
  // Browsers offer WebXR on pages that came over HTTPS, or from this machine.
  for (const mode of ["immersive-ar", "immersive-vr"]) {
    navigator.xr?.isSessionSupported(mode).then((supported) => {
      if (!supported || !at("pose").disabled) return;
      at("pose").hidden = at("pose").disabled = false;
      at("pose").addEventListener("click", () => driveByPose(mode, squeezed));
    });
  }
}

async function driveByPose(mode, squeezed) {
  const session = await navigator.xr.requestSession(mode, { optionalFeatures: ["local-floor"] });
  const canvas = document.createElement("canvas");
  session.updateRenderState({ baseLayer: new XRWebGLLayer(session, canvas.getContext("webgl", { xrCompatible: true })) });
  const space = await session.requestReferenceSpace("local");
  session.onselectstart = ({ inputSource }) => (gripped = { source: inputSource, start: null });
  session.onselectend = letGo;
  session.onsqueezestart = squeezed;
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
    pose = { axes: deflections(gripped.start, found.transform), seen: performance.now() };
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
