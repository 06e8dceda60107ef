// Stop trajectories of an arm in C++: the StopPlanner of ../stopping.py, step by step, on arrays of its own.
//
// Arrays of joints are padded to a multiple of kWidth, so that the compiler turns loops over joints into vector
// instructions without a remainder. A padding joint rests at 0, with limits of 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace {

constexpr double kSlack = 1e-6;  // as SLACK in ../stopping.py
constexpr double kLength = 1e-6;  // as LENGTH_SLACK
constexpr double kShare = 0.9;   // as BRAKING_SHARE
constexpr double kRest = 1e-12;   // as REST
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kWidth = 8;

// The number of joints with the padding.
inline int padded(int joints) { return (joints + kWidth - 1) / kWidth * kWidth; }

// As in __init__.py. Arrays have one element per joint unless a size is given; `lower` to `inverse_jerk` are padded.
// A query is in `state` (3n + 2k), `measured` (12) and `wanted` (k); the arrays from `wanted` to `next_state` receive
// the answer. Addresses in the struct cost nothing per call, unlike arguments from Python.
struct Planner {
  int32_t joints, controls, end_effector, local, holds_box, stride, steps, looks;
  const int32_t *order, *slides;
  const double *offsets, *rotations, *references;  // 3, 9, 1 per joint
  const double *tool_offset, *tool_rotation;                        // 3, 9
  const double *lower, *upper, *velocity, *acceleration, *jerk, *braking_acceleration, *braking_jerk;
  const double *inverse_acceleration, *inverse_jerk;  // of the two above
  const double *fine;                                 // one per control
  const double *low, *high, *cone_axis;          // 3
  const double *directions, *box_low, *box_high;  // 6 x controls, 3, 3
  double *state, *measured;
  double *wanted, *stop, *path, *travel, *next_state;
  double period, rate, linear, angular, cone_angle, damping;
};

// As many numbers as the processor's vectors hold: compilers compare the elements of longer vectors one by one.
constexpr int kLanes = std::min<int>(__BIGGEST_ALIGNMENT__ / sizeof(double), kWidth);

// Numbers of kLanes joints.
typedef double Lanes __attribute__((vector_size(8 * kLanes)));

Lanes lanes(const double *values) {
  Lanes loaded;
  std::memcpy(&loaded, values, sizeof loaded);
  return loaded;
}

void store(Lanes values, double *out) { std::memcpy(out, &values, sizeof values); }

Lanes larger(Lanes one, Lanes other) { return one > other ? one : other; }

Lanes smaller(Lanes one, Lanes other) { return one < other ? one : other; }

Lanes absolute(Lanes values) { return values < 0 ? -values : values; }

double largest(Lanes values) {
  double most[kLanes];
  store(values, most);
  for (int half = kLanes / 2; half; half /= 2)
    for (int lane = 0; lane < half; lane++) most[lane] = std::max(most[lane], most[lane + half]);
  return most[0];
}

// one * other + addend, rounded once where the processor can.
Lanes sum_of_product(Lanes one, double other, Lanes addend) {
#ifdef FP_FAST_FMA
  for (int lane = 0; lane < kLanes; lane++) addend[lane] = std::fma(one[lane], other, addend[lane]);
  return addend;
#else
  return one * other + addend;
#endif
}

// The first kLanes rows of matrix @ vector. Columns of the matrix are `step` apart.
Lanes combined(const double *matrix, int step, const double *vector, int columns) {
  Lanes sum = Lanes{};
  for (int j = 0; j < columns; j++) sum = sum_of_product(lanes(matrix + step * j), vector[j], sum);
  return sum;
}

struct Frame {
  double position[3], rotation[9];
};

// Three numbers and an unused fourth: a column of a rotation matrix, or a position.
typedef double Column __attribute__((vector_size(32)));

Column column(const double *values, int step = 1) { return Column{values[0], values[step], values[2 * step], 0.0}; }

// Sine and cosine of angles, one per joint. Small changes are added by series, which is several times as fast.
class Turns {
 public:
  explicit Turns(int joints) : n_(joints), angle_(padded(n_)), sine_(padded(n_)), cosine_(padded(n_)) {}

  void turn_to(const std::vector<double> &angles) {
    const double *to = angles.data();
    double *__restrict angle = angle_.data(), *__restrict sine = sine_.data(), *__restrict cosine = cosine_.data();
    int64_t small = known_;
    for (int i = 0, w = padded(n_); i < w; i++) small &= std::fabs(to[i] - angle[i]) < kSmall ? 1 : 0;
    if (small) {
      for (int i = 0, w = padded(n_); i < w; i++) {
        const double by = to[i] - angle[i], square = by * by;
        const double s = by * (1 - square / 6 * (1 - square / 20 * (1 - square / 42)));
        const double c = 1 - square / 2 * (1 - square / 12 * (1 - square / 30 * (1 - square / 56)));
        const double turned = sine[i] * c + cosine[i] * s;
        cosine[i] = cosine[i] * c - sine[i] * s;
        sine[i] = turned;
      }
    } else {
      for (int i = 0; i < n_; i++) {
        sine[i] = std::sin(to[i]);
        cosine[i] = std::cos(to[i]);
      }
    }
    known_ = 1;
    angle_ = angles;
  }

  double sine(int i) const { return sine_[i]; }
  double cosine(int i) const { return cosine_[i]; }

 private:
  static constexpr double kSmall = 0.05;  // what the series omit is less than a rounding error

  int n_;
  int64_t known_ = 0;
  std::vector<double> angle_, sine_, cosine_;
};

// Cholesky decomposition L L^T in place of the lower triangle of a symmetric matrix (size x size); the diagonal of L is
// stored inverted. Returns whether the matrix is positive definite; otherwise L holds NaN or infinity.
inline bool factorise(double *matrix, int size) {
  bool positive = true;
  for (int c = 0; c < size; c++)
    for (int r = c; r < size; r++) {
      double sum = matrix[size * r + c];
      for (int i = 0; i < c; i++) sum -= matrix[size * r + i] * matrix[size * c + i];
      if (r == c) positive &= sum > 0;
      matrix[size * r + c] = r == c ? 1 / std::sqrt(sum) : sum * matrix[size * c + c];
    }
  return positive;
}

class Motion {
 public:
  explicit Motion(const Planner &planner)
      : p(planner), n(planner.joints), w(padded(n)), k(planner.controls), turns_(n), values_(w), anchors_(n), axes_(n),
        jacobian_(6 * w) {
    if (!p.end_effector) return;
    for (int r = 0; r < 6; r++)
      for (int j = 0; j < kWidth; j++) directions_[r][j] = j < k ? p.directions[k * r + j] : 0.0;
  }

  // Computes the end effector's frame at joint positions q. Stores anchors and axes of the joints in the base frame.
  void forward(const double *q, Frame &frame) {
    for (int i = 0; i < n; i++) values_[i] = q[p.order[i]] - p.references[i];
    turns_.turn_to(values_);
    Column position = {0, 0, 0, 0}, x = {1, 0, 0, 0}, y = {0, 1, 0, 0}, z = {0, 0, 1, 0};
    const auto turned = [&](const double *by, int step) { return x * by[0] + y * by[step] + z * by[2 * step]; };
    for (int i = 0; i < n; i++) {
      const double *by = p.rotations + 9 * i;
      position += turned(p.offsets + 3 * i, 1);
      const Column first = turned(by, 3), second = turned(by + 1, 3);
      z = turned(by + 2, 3);
      if (p.slides[i]) {
        position += values_[i] * z;
        x = first;
        y = second;
      } else {
        x = turns_.cosine(i) * first + turns_.sine(i) * second;
        y = turns_.cosine(i) * second - turns_.sine(i) * first;
      }
      axes_[i] = z;
      anchors_[i] = position;
    }
    position += turned(p.tool_offset, 1);
    const Column tool[3] = {turned(p.tool_rotation, 3), turned(p.tool_rotation + 1, 3), turned(p.tool_rotation + 2, 3)};
    for (int r = 0; r < 3; r++) {
      frame.position[r] = position[r];
      for (int c = 0; c < 3; c++) frame.rotation[3 * r + c] = tool[c][r];
    }
  }

  // Computes the matrix from controls to joint velocities at q, column by column. Stores `factor_` for
  // joint_velocity(). Controls in the end effector's frame refer to the `measured` rotation (9), if that is given.
  void map(const double *q, Frame &frame, double *matrix, const double *measured = nullptr) {
    place(q, frame);
    if (measured && p.local) std::copy(measured, measured + 9, frame.rotation);
    for (int r = 0; r < 6; r++)
      for (int c = 0; c <= r; c++) {
        double sum = r == c ? p.damping * p.damping : 0.0;
        for (int i = 0; i < n; i++) sum += jacobian_[w * r + i] * jacobian_[w * c + i];
        factor_[6 * r + c] = sum;
      }
    factorise(factor_, 6);  // J J^T + damping^2 = L L^T
    double x[6][kWidth];  // one lane per control
    for (int half = 0; half < 6; half += 3)
      for (int r = 0; r < 3; r++)
        for (int j = 0; j < kWidth; j++) {
          const double *rotation = frame.rotation + 3 * r;
          x[half + r][j] = p.local ? rotation[0] * directions_[half][j] + rotation[1] * directions_[half + 1][j] +
                                         rotation[2] * directions_[half + 2][j]
                                   : directions_[half + r][j];
        }
    solve(x);
    for (int j = 0; j < k; j++) {
      const double single[6] = {x[0][j], x[1][j], x[2][j], x[3][j], x[4][j], x[5][j]};
      transposed(single, matrix + w * j);
    }
  }

  // Joint velocities that move the end effector by `displacement` (6) in a period; after map().
  void joint_velocity(const double *displacement, double *out) const {
    double x[6][1];
    for (int r = 0; r < 6; r++) x[r][0] = displacement[r];
    solve(x);
    transposed(x[0], out);
  }

  // The displacement (6) in the base frame that `controls` (k) command, for an end effector in `frame`.
  void displacement(const Frame &frame, const double *controls, double *out) const {
    double asked[6] = {0};
    for (int r = 0; r < 6; r++)
      for (int j = 0; j < k; j++) asked[r] += directions_[r][j] * controls[j];
    for (int half = 0; half < 6; half += 3)
      for (int r = 0; r < 3; r++) {
        const double *rotation = frame.rotation + 3 * r, *part = asked + half;
        out[half + r] =
            p.local ? rotation[0] * part[0] + rotation[1] * part[1] + rotation[2] * part[2] : asked[half + r];
      }
  }

  // Computes the end effector's frame and the Jacobian at joint positions q.
  void place(const double *q, Frame &frame) {
    forward(q, frame);
    find_jacobian(frame);
  }

  // The motion of the end effector (6) by `change` (n) of the joints; after place() or map().
  void moved(const double *change, double *out) const {
    for (int r = 0; r < 6; r++) {
      out[r] = 0;
      for (int i = 0; i < n; i++) out[r] += jacobian_[w * r + i] * change[i];
    }
  }

  // Whether the condition number of the Jacobian certainly is at most `limit`; after place() or map(). A quick test: it
  // may return false although the number is. The eigenvalues of J J^T (of J^T J with fewer than six joints) have to be above a share
  // 1 / limit^2 of its Frobenius norm, which is no less than the largest one: the matrix has to remain positive
  // definite when that share is subtracted from its diagonal.
  bool is_surely_regular(double limit) const {
    const int size = std::min(n, 6), terms = std::max(n, 6);
    const int row = n < 6 ? 1 : w, term = n < 6 ? w : 1;
    double gram[36], squared = 0;
    for (int r = 0; r < size; r++)
      for (int c = 0; c < size; c++) {
        double sum = 0;
        for (int i = 0; i < terms; i++) sum += jacobian_[row * r + term * i] * jacobian_[row * c + term * i];
        gram[size * r + c] = sum;
        squared += sum * sum;
      }
    for (int r = 0; r < size; r++) gram[(size + 1) * r] -= std::sqrt(squared) / (limit * limit);
    return factorise(gram, size);
  }

 private:
  // Computes J at the posture of the last forward(), which put the end effector in `frame`.
  void find_jacobian(const Frame &frame) {
    for (int i = 0; i < n; i++) {
      const Column axis = axes_[i], r = column(frame.position) - anchors_[i];
      const double turned[3] = {axis[1] * r[2] - axis[2] * r[1], axis[2] * r[0] - axis[0] * r[2],
                                axis[0] * r[1] - axis[1] * r[0]};
      double *entry = &jacobian_[p.order[i]];
      for (int c = 0; c < 3; c++) {
        entry[w * c] = p.slides[i] ? axis[c] : turned[c];
        entry[w * (3 + c)] = p.slides[i] ? 0.0 : axis[c];
      }
    }
  }

  // Solves (J J^T + damping^2) X = X in place, lane by lane; after map().
  template <int lanes>
  void solve(double (&x)[6][lanes]) const {
    for (int r = 0; r < 6; r++)
      for (int j = 0; j < lanes; j++) {
        double sum = x[r][j];
        for (int c = 0; c < r; c++) sum -= factor_[6 * r + c] * x[c][j];
        x[r][j] = sum * factor_[6 * r + r];
      }
    for (int r = 5; r >= 0; r--)
      for (int j = 0; j < lanes; j++) {
        double sum = x[r][j];
        for (int c = r + 1; c < 6; c++) sum -= factor_[6 * c + r] * x[c][j];
        x[r][j] = sum * factor_[6 * r + r];
      }
  }

  // J^T x (6), as velocities.
  void transposed(const double *x, double *__restrict out) const {
    const double *jacobian = jacobian_.data(), rate = p.rate;
    for (int i = 0; i < w; i++)
      out[i] = rate * (jacobian[i] * x[0] + jacobian[w + i] * x[1] + jacobian[2 * w + i] * x[2] +
                       jacobian[3 * w + i] * x[3] + jacobian[4 * w + i] * x[4] + jacobian[5 * w + i] * x[5]);
  }

  const Planner &p;
  const int n, w, k;
  Turns turns_;
  std::vector<double> values_;
  std::vector<Column> anchors_, axes_;
  std::vector<double> jacobian_;  // 6 rows
  double factor_[36], directions_[6][kWidth];
};

// The strongest deceleration from `speed` that can still be eased out by a jerk until rest. `jolt` is its largest
// change in a period, `doubled` is 2 / (jolt * period), computed by the caller: every period of a stop waits for this.
double strongest(double speed, double jolt, double doubled, double rate) {
  const double whole = std::floor(std::sqrt(0.25 + speed * doubled) - 0.5);
  return (speed * rate + jolt * (whole * (whole + 1) / 2)) / (whole + 1);
}

double clamp(double value, double low, double high) { return std::min(std::max(value, low), high); }

// The next velocities of joints that stop.
void slower(const Planner &p, const double *velocity, const double *acceleration, double *__restrict out) {
  const double *limit = p.braking_acceleration, *jerk = p.braking_jerk, *inverse = p.inverse_jerk;
  const double period = p.period, rate = p.rate;
  for (int i = 0, w = padded(p.joints); i < w; i++) {
    const double jolt = jerk[i] * period, doubled = 2 * rate * rate * inverse[i];
    const double strength = std::min(limit[i], strongest(std::fabs(velocity[i]), jolt, doubled, rate));
    const double wanted = velocity[i] > 0 ? -strength : strength;
    out[i] = velocity[i] + clamp(wanted, acceleration[i] - jolt, acceleration[i] + jolt) * period;
  }
}

// How often the way between two controls is halved if it is as long as `steps` fine changes.
int halvings(double steps) { return std::min(std::max(static_cast<int>(std::ceil(std::log2(steps))), 2), 6); }

// A copy of `size` numbers with room for `room`.
std::vector<double> with_room(const double *values, int size, int room) {
  std::vector<double> copy(room);
  std::copy(values, values + size, copy.begin());
  return copy;
}

struct State {
  std::vector<double> q, velocity, acceleration, controls, rates;

  // From joint positions, velocities, accelerations (n), controls and their rates of change (k), one after another.
  State(const double *values, int n, int k)
      : q(with_room(values, n, padded(n))), velocity(with_room(values + n, n, padded(n))),
        acceleration(with_room(values + 2 * n, n, padded(n))), controls(with_room(values + 3 * n, k, padded(k))),
        rates(with_room(values + 3 * n + k, k, padded(k))) {}

  void write(double *out, int n, int k) const {
    for (const auto *part : {&q, &velocity, &acceleration}) out = std::copy_n(part->begin(), n, out);
    for (const auto *part : {&controls, &rates}) out = std::copy_n(part->begin(), k, out);
  }
};

// matrix @ vector, where the matrix is padded columns of `joints`, one after another.
void combine(const double *matrix, int joints, const double *vector, int columns, double *out) {
  const int w = padded(joints);
  for (int block = 0; block < w; block += kLanes) store(combined(matrix + block, w, vector, columns), out + block);
}

// The next controls of an arm that stops, if joint velocities are matrix @ controls. The matrix is stored by columns.
void slower_controls(const Planner &p, const double *matrix, const State &state, double *out) {
  const int k = p.controls, w = padded(p.joints);
  const double period = p.period, rate = p.rate;
  Lanes moves = Lanes{};  // by how much joints exceed their limits if they stand still next
  Lanes heaviest = Lanes{}, jerkiest = Lanes{};  // shares of the limits that controls of this size use, per second
  for (int block = 0; block < w; block += kLanes) {
    // Whole limits: standing still does not depend on the Jacobian, so a change of it does not matter.
    const Lanes needed = -rate * lanes(&state.velocity[block]), jolt = lanes(p.jerk + block) * (period * (1 + kSlack));
    moves = larger(moves, absolute(needed) - smaller(lanes(p.acceleration + block), jolt));
    moves = larger(moves, absolute(needed - lanes(&state.acceleration[block])) - jolt);
    const Lanes speed = absolute(combined(matrix + block, w, state.controls.data(), k)) + 1e-12;
    heaviest = larger(heaviest, speed * lanes(p.inverse_acceleration + block));
    jerkiest = larger(jerkiest, speed * lanes(p.inverse_jerk + block));
  }
  if (largest(moves) <= 0) {
    std::fill(out, out + k, 0.0);
    return;
  }
  const double jolting = largest(jerkiest), jolt = period / jolting, doubled = 2 * rate * rate * jolting;
  const double strength = kShare * std::min(1 / largest(heaviest), strongest(1.0 / kShare, jolt, doubled, rate));
  double kept[kWidth], change[kWidth];
  for (int j = 0; j < k; j++) {
    kept[j] = state.controls[j] + state.rates[j] * period;
    change[j] = (-strength * state.controls[j] - state.rates[j]) * period;
  }
  Lanes least = Lanes{} - kInfinity, most = Lanes{} + kInfinity;
  for (int block = 0; block < w; block += kLanes) {
    const Lanes jolt = lanes(p.braking_jerk + block) * period, limit = lanes(p.braking_acceleration + block);
    const Lanes acceleration = lanes(&state.acceleration[block]);
    const Lanes low = larger(acceleration - jolt, -limit) * period, high = smaller(acceleration + jolt, limit) * period;
    const Lanes start = combined(matrix + block, w, kept, k) - lanes(&state.velocity[block]);
    const Lanes slope = combined(matrix + block, w, change, k);
    const auto counts = absolute(slope) >= 1e-12;
    const Lanes inverse = 1 / (counts ? slope : Lanes{} + 1.0);
    const Lanes one = (low - start) * inverse, other = (high - start) * inverse;
    least = larger(least, counts ? smaller(one, other) : least);
    most = smaller(most, counts ? larger(one, other) : most);
  }
  const double from = largest(least), to = -largest(-most);
  const double blend = from > to ? clamp((from + to) / 2, 0.0, 1.0) : clamp(1.0, from, to);
  for (int j = 0; j < k; j++) out[j] = kept[j] + blend * change[j];
}

double lean(const Planner &p, const Frame &frame) {
  double cosine = 0;
  for (int c = 0; c < 3; c++) cosine += frame.rotation[3 * c + 2] * p.cone_axis[c];
  return std::acos(clamp(cosine, -1.0, 1.0));
}

// What the end effector may not leave: its box, extended to where it is, and an angle of its z axis.
struct Space {
  double low[3], high[3], most_lean;

  void surround(const Planner &p, const Frame &now) {
    most_lean = std::max(p.cone_angle + kSlack, lean(p, now));
    for (int c = 0; c < 3; c++) {
      low[c] = std::min(p.low[c] - kLength, now.position[c]);
      high[c] = std::max(p.high[c] + kLength, now.position[c]);
    }
  }
};

// Whether the end effector may go from one frame to another in `periods`.
bool may_go(const Planner &p, const Frame &from, const Frame &to, double periods, const Space &space) {
  for (int c = 0; c < 3; c++)
    if (to.position[c] < space.low[c] || to.position[c] > space.high[c]) return false;
  const double time = p.period * periods * (periods > 1 ? 0.995 : 1.0);
  double squared = 0, trace = 0;
  for (int c = 0; c < 3; c++) squared += (to.position[c] - from.position[c]) * (to.position[c] - from.position[c]);
  for (int c = 0; c < 9; c++) trace += to.rotation[c] * from.rotation[c];
  if (std::sqrt(squared) > p.linear * time * (1 + kSlack)) return false;
  const double angle = p.angular * time * (1 + kSlack);
  if (angle < M_PI && trace < 1 + 2 * std::cos(angle)) return false;
  return !(p.cone_angle < M_PI) || lean(p, to) <= space.most_lean;
}

bool within_limits(const Planner &p, const State &state, const double *velocity) {
  const double *before = state.velocity.data(), *acceleration = state.acceleration.data(), *q = state.q.data();
  const double period = p.period, rate = p.rate;
  int64_t kept = 1;  // false with NaN, too
  for (int i = 0, w = padded(p.joints); i < w; i++) {
    const double next = (velocity[i] - before[i]) * rate, jerk = (next - acceleration[i]) * rate;
    const double reached = q[i] + velocity[i] * period;
    kept &= std::fabs(velocity[i]) <= p.velocity[i] * (1 + kSlack) ? 1 : 0;
    kept &= std::fabs(next) <= p.acceleration[i] * (1 + kSlack) ? 1 : 0;
    kept &= std::fabs(jerk) <= p.jerk[i] * (1 + kSlack) ? 1 : 0;
    // Outside its range a joint goes no further out in any period, so what is left of a stop remains allowed.
    kept &= reached <= std::max(p.upper[i] + kLength, q[i]) ? 1 : 0;
    kept &= reached >= std::min(p.lower[i] - kLength, q[i]) ? 1 : 0;
  }
  return kept;
}

void advance(const Planner &p, State &state, const std::vector<double> &velocity, const std::vector<double> &controls) {
  const double period = p.period, rate = p.rate;
  double *__restrict before = state.velocity.data(), *__restrict acceleration = state.acceleration.data();
  double *__restrict q = state.q.data(), *__restrict rates = state.rates.data();
  double *__restrict last = state.controls.data();
  for (int j = 0, w = padded(p.controls); j < w; j++) {
    rates[j] = (controls[j] - last[j]) * rate;
    last[j] = controls[j];
  }
  for (int i = 0, w = padded(p.joints); i < w; i++) {
    acceleration[i] = (velocity[i] - before[i]) * rate;
    before[i] = velocity[i];
    q[i] += velocity[i] * period;
  }
}

bool at_rest(const Planner &p, const State &state) {
  const double *velocity = state.velocity.data(), *acceleration = state.acceleration.data(), period = p.period;
  int64_t rests = 1;
  for (int i = 0, w = padded(p.joints); i < w; i++) {
    rests &= std::fabs(velocity[i]) <= kRest ? 1 : 0;
    rests &= std::fabs(acceleration[i]) <= p.jerk[i] * period * (1 + kSlack) ? 1 : 0;
  }
  return rests;
}

enum { kClear = 0, kJoints = 1, kEndEffector = 2 };

// One query of the planner: the arm's state, and its possible motion from there.
class Question {
 public:
  explicit Question(const Planner &planner)
      : p(planner), n(p.joints), w(padded(n)), k(p.controls), state_(p.state, n, k), now_(state_), then_(state_),
        measured_(p.measured), motion_(p),
        matrix_(p.end_effector ? w * k : 0), ahead_(matrix_), velocity_(w), next_(padded(k)), predicted_(w),
        first_(matrix_), here_(p) {
    if (p.end_effector)
      here_.map(state_.q.data(), frame_, first_.data(), measured_ + 3);
    else
      here_.place(state_.q.data(), frame_);
    if (p.looks) space_.surround(p, frame_);
  }

  // The controls (k) that continue a stop.
  void stop(double *out) const {
    if (p.end_effector) {
      slower_controls(p, first_.data(), state_, out);
      return;
    }
    std::vector<double> next(w);
    slower(p, state_.velocity.data(), state_.acceleration.data(), next.data());
    std::copy_n(next.begin(), n, out);
  }

  // Controls (k) that are nearer to `stop` than `wanted` (both k), as far as single joints require in the next period.
  void limit(const double *stop, const double *wanted, double *out) const {
    if (p.end_effector) {
      const double share = share_of_joints(stop, wanted);
      for (int j = 0; j < k; j++) out[j] = stop[j] + share * (wanted[j] - stop[j]);
      return;
    }
    for (int i = 0; i < n; i++) {
      const double velocity = state_.velocity[i], acceleration = state_.acceleration[i], top = p.velocity[i];
      const double limit = p.braking_acceleration[i], change = p.braking_jerk[i] * p.period;
      const double low = clamp(acceleration - change, -limit, limit), high = clamp(acceleration + change, -limit, limit);
      out[i] = clamp(clamp(wanted[i], -top, top), velocity + low * p.period, velocity + high * p.period);
    }
  }

  // Moves velocities (n) so near to those of a `stop` that each joint, considered separately, can stop after them.
  // Returns whether any velocity had to be changed.
  bool limit_ahead(const double *stop, double *velocity) const {
    std::vector<double> fastest = with_room(velocity, n, w), share(w), stops(w);
    std::vector<int> count(n);
    std::fill_n(stops.begin(), n, 1.0);
    joints_stop(fastest, stops);
    int most = 0;
    for (int i = 0; i < n; i++)
      if (stops[i] == 0) {
        count[i] = halvings(std::fabs(fastest[i] - stop[i]) / p.fine[i]);
        most = std::max(most, count[i]);
      }
    std::vector<double> option = fastest;
    for (int tried = 0; tried < most; tried++) {
      const double half = std::ldexp(0.5, -tried);
      for (int i = 0; i < n; i++) {
        stops[i] = tried < count[i];
        if (tried < count[i]) option[i] = stop[i] + (share[i] + half) * (fastest[i] - stop[i]);
      }
      joints_stop(option, stops);
      for (int i = 0; i < n; i++) share[i] += half * stops[i];
    }
    for (int i = 0; i < n; i++)
      if (count[i]) velocity[i] = stop[i] + share[i] * (fastest[i] - stop[i]);
    return most > 0;
  }

  // Simulates one period with `controls` (k) and the stop after it. Writes the postures (m x n) that were checked to
  // the planner's `path`, how far the joints (n) move along it to `travel`, and the state (3n + 2k) after the first
  // period to `next_state`. Returns the outcome and m, as outcome + 4 m.
  int plan(const double *controls) {
    double *path = p.path, *travel = p.travel;
    State &now = now_;
    now = state_;
    Frame before = frame_, frame;
    int count = 0;
    const auto answer = [&](int outcome) { return outcome + 4 * count; };
    std::fill(travel, travel + n, 0.0);
    std::copy(controls, controls + k, next_.begin());
    if (p.end_effector) {
      cut_off();
      matrix_ = first_;
    } else {
      std::copy(controls, controls + n, velocity_.begin());
    }
    then_ = now;
    advance(p, then_, velocity_, next_);
    then_.write(p.next_state, n, k);
    int since = 0, block = 1;  // the first block is one period
    bool near = false;         // whether the end effector is so near a side of the controller's box
    for (int done = 0; done < p.steps; done++) {
      if (p.end_effector)
        for (int j = 0; j < k; j++)
          if (!(std::fabs(next_[j]) <= 1 + kSlack)) return answer(kJoints);
      if (!within_limits(p, now, velocity_.data())) return answer(kJoints);
      advance(p, now, velocity_, next_);
      const bool rests = at_rest(p, now);
      if (++since == block || rests) {
        if (p.looks) {
          motion_.forward(now.q.data(), frame);
          if (!may_go(p, before, frame, since, space_)) return answer(kEndEffector);
          before = frame;
        }
        const double *last = count ? path + n * (count - 1) : state_.q.data();
        for (int i = 0; i < n; i++) travel[i] += std::fabs(now.q[i] - last[i]);
        std::copy(now.q.begin(), now.q.end(), path + n * count++);
        if (rests) return answer(kClear);
        if (p.end_effector) look_ahead(now, block == 1);
        since = 0;
        block = p.stride;
      }
      go_on(now, since);
      if (!p.holds_box) continue;
      if (since == 0) near = is_near_side(before);
      if (since != 0 && near) motion_.forward(now.q.data(), frame);
      if ((since == 0 || near) && is_cut_off(frame)) return answer(kEndEffector);
    }
    return answer(kJoints);
  }

  // As StopPlanner.nearest. Replaces `wanted` (k) by the controls nearest to it; writes the controls of the stop to
  // `stop` (k). Returns the limits that were in the way and the length of the path, as reasons + 4 m. Reasons: 1 for
  // joints, 2 for the end effector, 3 for both.
  int nearest(double *wanted, double *stop) {
    this->stop(stop);
    int answer = plan(wanted), reasons = answer % 4;
    if (reasons == kClear) return answer;
    std::vector<double> far(k), option(k);
    const auto take = [&](double share) {  // as it will be sent: end-effector actions are float32
      for (int j = 0; j < k; j++) {
        const double value = stop[j] + share * (far[j] - stop[j]);
        option[j] = p.end_effector ? static_cast<double>(static_cast<float>(value)) : value;
      }
      answer = plan(option.data());
      return answer % 4;
    };
    limit(stop, wanted, far.data());
    int outcome = take(1.0);
    if (outcome != kClear && !p.end_effector && limit_ahead(stop, far.data())) outcome = take(1.0);
    reasons |= outcome;
    if (outcome != kClear) {
      double share = 0, last = 1, steps = 1;
      for (int j = 0; j < k; j++) steps = std::max(steps, std::fabs(far[j] - stop[j]) / p.fine[j]);
      for (int count = halvings(steps), tried = 0; tried < count; tried++) {
        const double half = std::ldexp(0.5, -tried);
        last = share + half;
        if (take(last) == kClear) share = last;
      }
      if (share != last) take(share);  // the path of the chosen controls
    }
    std::copy(option.begin(), option.end(), wanted);
    return reasons + answer / 4 * 4;
  }

  // The arm at the state of the query, before it moves.
  const Motion &here() const { return here_; }

 private:
  // Computes joint velocities of the first period, and the controls that the robot's own controller leaves at its box.
  void cut_off() {
    double displacement[6];
    here_.displacement(frame_, next_.data(), displacement);
    if (p.holds_box)
      for (int c = 0; c < 3; c++) {
        // From outside the box, the way back is no longer than the action.
        const double start = measured_[c], size = std::fabs(displacement[c]);
        const double low = std::min(p.box_low[c], start + size), high = std::max(p.box_high[c], start - size);
        const double kept = clamp(start + displacement[c], low, high) - start;
        if (kept == displacement[c]) continue;
        displacement[c] = kept;
        if (!p.local)
          for (int j = 0; j < k; j++)
            if (p.directions[k * c + j] != 0) next_[j] = kept / p.directions[k * c + j];
      }
    here_.joint_velocity(displacement, velocity_.data());
  }

  // Whether the robot's own controller would cut off some of the next controls, which then must not be part of a stop.
  bool is_cut_off(const Frame &from) const {
    double displacement[6];
    here_.displacement(from, next_.data(), displacement);
    for (int c = 0; c < 3; c++) {
      const double start = from.position[c], target = start + displacement[c];
      if (target > std::max(p.box_high[c], start) || target < std::min(p.box_low[c], start)) return true;
    }
    return false;
  }

  // Whether a motion from `from` may be cut off before the next check.
  bool is_near_side(const Frame &from) const {
    double furthest = 0;
    for (int c = 0; c < 3; c++) {
      double most = 0;
      for (int j = 0; j < k; j++) most += std::fabs(p.directions[k * c + j]);
      furthest = std::hypot(furthest, (p.stride + 1) * most);
    }
    for (int c = 0; c < 3; c++)
      if (from.position[c] + furthest > p.box_high[c] || from.position[c] - furthest < p.box_low[c]) return true;
    return false;
  }

  // Computes the map from controls to joint velocities at `now` and, with strides, that at the end of the next stride.
  void look_ahead(const State &now, bool begins) {
    Frame frame;
    if (p.stride == 1 || begins)
      motion_.map(now.q.data(), frame, matrix_.data());
    else
      matrix_ = ahead_;
    if (p.stride == 1) return;
    for (int i = 0; i < n; i++) predicted_[i] = now.q[i] + now.velocity[i] * p.period * p.stride;
    motion_.map(predicted_.data(), frame, ahead_.data());
  }

  // Computes the next period of a stop, `since` periods after the last check.
  void go_on(const State &now, int since) {
    if (!p.end_effector) {
      slower(p, now.velocity.data(), now.acceleration.data(), velocity_.data());
      next_ = velocity_;
      return;
    }
    if (p.stride > 1 && since > 0) {  // the map is interpolated from one check to the next
      const double share = 1.0 / (p.stride - since + 1);
      for (int e = 0; e < w * k; e++) matrix_[e] += share * (ahead_[e] - matrix_[e]);
    }
    slower_controls(p, matrix_.data(), now, next_.data());
    combine(matrix_.data(), n, next_.data(), k, velocity_.data());
  }

  // The share of the way from `stop` to `wanted` controls (k) up to which the next period is within all joints' limits.
  double share_of_joints(const double *stop, const double *wanted) const {
    double share = 1;
    for (int i = 0; i < n; i++) {
      const double velocity = state_.velocity[i], acceleration = state_.acceleration[i], jolt = p.jerk[i] * p.period;
      double low = std::max(acceleration - jolt, -p.acceleration[i]);
      double high = std::min(acceleration + jolt, p.acceleration[i]);
      low = std::max(velocity + low * p.period, -p.velocity[i]);
      high = std::min(velocity + high * p.period, p.velocity[i]);
      double start = 0, slope = 0;
      for (int j = 0; j < k; j++) {
        start += first_[w * j + i] * stop[j];
        slope += first_[w * j + i] * (wanted[j] - stop[j]);
      }
      share = std::min(share, (slope > 0 ? high - start : start - low) / std::max(std::fabs(slope), 1e-12));
    }
    return std::max(share, 0.0);
  }

  // Whether joints that continue at velocities `next` can stop within their own limits. `stops` is 1 for the joints to
  // test, and 0 for others; it becomes 0 for those that cannot stop.
  void joints_stop(const std::vector<double> &next, std::vector<double> &stops) const {
    const double period = p.period, rate = p.rate;
    std::vector<double> place = state_.q, speed = state_.velocity, change(w), then = next, open = stops;
    double *__restrict q = place.data(), *__restrict v = speed.data(), *__restrict a = change.data();
    double *__restrict asked = open.data(), *__restrict good = stops.data();
    const double *following = then.data();
    for (int step = 0; step < p.steps; step++) {
      int64_t rest = 0;
      for (int i = 0; i < w; i++) {
        a[i] = (following[i] - v[i]) * rate;
        v[i] = following[i];
        const double reached = q[i] + v[i] * period;
        const bool breaks = reached > std::max(p.upper[i] + kLength, q[i]) ||
                            reached < std::min(p.lower[i] - kLength, q[i]) ||
                            std::fabs(v[i]) > p.velocity[i] * (1 + kSlack);
        const bool rests = std::fabs(v[i]) <= kRest && std::fabs(a[i]) <= p.jerk[i] * period * (1 + kSlack);
        good[i] = asked[i] != 0 && breaks ? 0.0 : good[i];
        asked[i] = breaks || rests ? 0.0 : asked[i];
        rest |= asked[i] != 0 ? 1 : 0;
        q[i] = reached;
      }
      if (!rest) return;
      slower(p, v, a, then.data());
    }
    for (int i = 0; i < w; i++)
      if (asked[i] != 0) good[i] = 0;  // not at rest in time
  }

  const Planner &p;
  const int n, w, k;
  const State state_;
  State now_, then_;  // of a plan
  const double *measured_;
  Motion motion_;
  Frame frame_;
  std::vector<double> matrix_, ahead_, velocity_, next_, predicted_, first_;
  Motion here_;  // at the state of the query
  Space space_;
};

}  // namespace
