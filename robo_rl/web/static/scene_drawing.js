// The drawing of a three-dimensional scene with WebGL 2: shapes on moving bodies, as SceneView in robo_rl/actor/scene.py
// describes them. A library such as three.js alone is larger than all other files of the page, so there is none.

const VERTEX = `#version 300 es
in vec3 corner, normal;
uniform vec3 size, shift, place, bodyPlace, eye, right, up, back;
uniform vec4 turn, bodyTurn, lens; // quaternions with the real part first
out vec3 facing, toEye;
vec3 turned(vec4 by, vec3 v) { return v + 2.0 * cross(by.yzw, cross(by.yzw, v) + by.x * v); }
void main() {
  vec3 point = turned(bodyTurn, turned(turn, corner * size + shift) + place) + bodyPlace;
  facing = turned(bodyTurn, turned(turn, normal / size));
  toEye = eye - point;
  float depth = dot(toEye, back);
  gl_Position = vec4(-lens.x * dot(toEye, right), -lens.y * dot(toEye, up), lens.z * depth + lens.w, depth);
}`;
// The lights of sim/scene.py: at the camera, a key light and one that fills the shadows.
const FRAGMENT = `#version 300 es
precision highp float;
in vec3 facing, toEye;
uniform vec4 colour;
uniform float lit;
out vec4 pixel;
void main() {
  vec3 view = normalize(toEye), n = length(facing) > 0.0 ? normalize(facing) : view;
  if (dot(n, view) < 0.0) n = -n;
  float light = 0.32 + 0.18 * dot(n, view) + 0.54 * max(dot(n, normalize(vec3(0.5, -0.6, 1.5))), 0.0)
    + 0.23 * max(dot(n, normalize(vec3(0.3, 1.0, 1.0))), 0.0);
  pixel = vec4(colour.rgb * mix(1.0, light, lit), colour.a);
}`;
const SEGMENTS = 32; // of a circle
const ENDLESS = 30; // half the side of a plane without a size [m]
const WORLD = [0, 0, 0, 1, 0, 0, 0];

export class Drawing {
  // Raises an Error where the browser has no WebGL 2.
  constructor(canvas) {
    const gl = canvas.getContext("webgl2", { alpha: false });
    if (!gl) throw new Error("WebGL 2 is not available in this browser");
    this.gl = gl;
    this.program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(this.program, shader);
    }
    gl.linkProgram(this.program);
    if (!gl.getProgramParameter(this.program, gl.LINK_STATUS)) throw new Error("WebGL 2 does not work in this browser");
    gl.useProgram(this.program);
    const uniforms = ["size", "shift", "place", "turn", "bodyPlace", "bodyTurn", "eye", "right", "up", "back", "lens", "colour", "lit"];
    this.at = Object.fromEntries(uniforms.map((name) => [name, gl.getUniformLocation(this.program, name)]));
    gl.enable(gl.DEPTH_TEST);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    const shapes = { box: box(), plane: plane(), sphere: sphere(), cylinder: cylinder() };
    this.shapes = Object.fromEntries(Object.entries(shapes).map(([name, corners]) => [name, this.upload(corners)]));
    this.edges = this.upload(boxEdges(), gl.LINES);
    this.meshes = [];
    this.geometry = { geoms: [], box: [] };
  }

  // Draw another geometry from now on.
  load(geometry) {
    for (const { array, buffer } of this.meshes) {
      this.gl.deleteVertexArray(array);
      this.gl.deleteBuffer(buffer);
    }
    this.meshes = geometry.meshes.map((mesh) => this.upload(triangles(mesh)));
    this.geometry = geometry;
  }

  // Copy corners and normals, six numbers a vertex, to the graphics memory.
  upload(corners, mode = this.gl.TRIANGLES) {
    const gl = this.gl;
    const array = gl.createVertexArray();
    const buffer = gl.createBuffer();
    gl.bindVertexArray(array);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(corners), gl.STATIC_DRAW);
    ["corner", "normal"].forEach((name, index) => {
      const place = gl.getAttribLocation(this.program, name);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, 3, gl.FLOAT, false, 24, 12 * index);
    });
    return { array, buffer, mode, count: corners.length / 6 };
  }

  // Draw the scene as the camera, a View, sees it. `poses` are those of a frame; the colours are lists of 3 numbers.
  draw(view, poses, background, accent) {
    const gl = this.gl;
    gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
    gl.clearColor(...background, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    for (const name of ["eye", "right", "up", "back"]) gl.uniform3fv(this.at[name], view[name]);
    gl.uniform4fv(this.at.lens, view.lens);
    const isClear = ({ colour }) => colour[3] < 1;
    gl.uniform1f(this.at.lit, 1);
    for (const geom of this.geometry.geoms) if (!isClear(geom)) this.drawGeom(geom, poses);
    if (this.geometry.box.length) {
      const [low, high] = [this.geometry.box.slice(0, 3), this.geometry.box.slice(3)];
      gl.uniform1f(this.at.lit, 0);
      this.place(WORLD, WORLD);
      gl.uniform3fv(this.at.shift, low.map((value, axis) => (value + high[axis]) / 2));
      gl.uniform4f(this.at.colour, ...accent, 1);
      this.drawShape(this.edges, low.map((value, axis) => (high[axis] - value) / 2));
      gl.uniform1f(this.at.lit, 1);
    }
    gl.enable(gl.BLEND);
    gl.depthMask(false); // what is behind a clear shape stays visible, whichever is drawn first
    for (const geom of this.geometry.geoms) if (isClear(geom)) this.drawGeom(geom, poses);
    gl.depthMask(true);
    gl.disable(gl.BLEND);
  }

  drawGeom({ type, size: [a, b, c], colour, body, pose, mesh }, poses) {
    const gl = this.gl;
    this.place(pose, body ? poses.slice(7 * body - 7, 7 * body) : WORLD);
    gl.uniform4fv(this.at.colour, colour);
    gl.uniform3f(this.at.shift, 0, 0, 0);
    if (type === "mesh") this.drawShape(this.meshes[mesh], [1, 1, 1]);
    else if (type === "plane") this.drawShape(this.shapes.plane, [a || ENDLESS, b || ENDLESS, 1]);
    else if (type === "sphere") this.drawShape(this.shapes.sphere, [a, a, a]);
    else if (type === "ellipsoid") this.drawShape(this.shapes.sphere, [a, b, c]);
    else if (type === "box") this.drawShape(this.shapes.box, [a, b, c]);
    else this.drawShape(this.shapes.cylinder, [a, a, b]);
    if (type !== "capsule") return;
    for (const end of [-b, b]) {
      gl.uniform3f(this.at.shift, 0, 0, end);
      this.drawShape(this.shapes.sphere, [a, a, a]);
    }
  }

  place(pose, body) {
    const gl = this.gl;
    gl.uniform3fv(this.at.place, pose.slice(0, 3));
    gl.uniform4fv(this.at.turn, pose.slice(3));
    gl.uniform3fv(this.at.bodyPlace, body.slice(0, 3));
    gl.uniform4fv(this.at.bodyTurn, body.slice(3));
  }

  drawShape({ array, mode, count }, size) {
    this.gl.uniform3fv(this.at.size, size);
    this.gl.bindVertexArray(array);
    this.gl.drawArrays(mode, 0, count);
  }
}

// --- shapes: corners and normals of triangles, with half sizes of 1 ---------------------------------------------------

const CORNERS = [[-1, -1], [1, -1], [1, 1], [-1, -1], [1, 1], [-1, 1]]; // of the two triangles of a square

function plane() {
  return CORNERS.flatMap(([x, y]) => [x, y, 0, 0, 0, 1]);
}

function box() {
  const sides = [0, 1, 2].flatMap((axis) => [[axis, -1], [axis, 1]]);
  const turn = (vector, axis) => vector.map((_, place) => vector[(place + 2 - axis) % 3]); // its z becomes this axis
  return sides.flatMap(([axis, sign]) =>
    CORNERS.flatMap(([x, y]) => [...turn([x, y, sign], axis), ...turn([0, 0, sign], axis)]));
}

function boxEdges() {
  const ends = [-1, 1].flatMap((x) => [-1, 1].flatMap((y) => [-1, 1].map((z) => [x, y, z])));
  const edges = ends.flatMap((one, i) =>
    ends.slice(i + 1).filter((other) => one.filter((value, axis) => value !== other[axis]).length === 1)
      .map((other) => [one, other]));
  return edges.flat().flatMap((corner) => [...corner, 0, 0, 0]);
}

function sphere() {
  const angles = Array.from({ length: SEGMENTS / 2 + 1 }, (_, index) => (2 * Math.PI * index) / SEGMENTS);
  const points = angles.map((angle) => [Math.sin(angle), -Math.cos(angle), Math.sin(angle), -Math.cos(angle)]);
  return points.slice(1).flatMap((point, index) => ring(points[index], point));
}

function cylinder() {
  const bottom = ring([0, -1, 0, -1], [1, -1, 0, -1]);
  return [...bottom, ...ring([1, -1, 1, 0], [1, 1, 1, 0]), ...ring([1, 1, 0, 1], [0, 1, 0, 1])];
}

// The surface that a line between two points makes as it turns about the z axis. A point: radius, z, and its normal's.
function ring(one, other) {
  const corner = ([radius, z, outwards, upwards], segment) => {
    const [x, y] = [Math.cos, Math.sin].map((each) => each((2 * Math.PI * segment) / SEGMENTS));
    return [radius * x, radius * y, z, outwards * x, outwards * y, upwards];
  };
  return Array.from({ length: SEGMENTS }, (_, segment) =>
    CORNERS.flatMap(([x, y]) => corner(y < 0 ? one : other, x < 0 ? segment : segment + 1))).flat();
}

// The triangles of a mesh, each with its own normal.
function triangles({ vertices, faces }) {
  const points = new Float32Array(decoded(vertices));
  const corners = new Uint16Array(decoded(faces));
  const result = new Float32Array(6 * corners.length);
  for (let face = 0; face < corners.length; face += 3) {
    const [a, b, c] = [0, 1, 2].map((each) => points.subarray(3 * corners[face + each], 3 * corners[face + each] + 3));
    const [u, v] = [b, c].map((each) => each.map((value, axis) => value - a[axis]));
    const normal = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    [a, b, c].forEach((point, each) => result.set([...point, ...normal], 6 * (face + each)));
  }
  return result;
}

function decoded(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer;
}
