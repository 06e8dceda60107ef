// Stop trajectories of an arm in C++: what StopPlanner (../stopping.py) defines, step by step, on arrays of its own.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

constexpr double kSlack = 1e-6;  // as SLACK in ../stopping.py
constexpr double kLength = 1e-6;  // as LENGTH_SLACK
constexpr double kShare = 0.9;   // as BRAKING_SHARE
constexpr double kRest = 1e-12;   // as REST
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// As in __init__.py. Arrays have one element a joint unless a size is given.
struct Planner {
  int32_t joints, controls, end_effector, local, holds_box, stride, steps, looks;
  const int32_t *order, *slides;
  const double *offsets, *rotations, *references;  // 3, 9, 1 a joint
  const double *tool_offset, *tool_rotation;                        // 3, 9
  const double *lower, *upper, *velocity, *acceleration, *jerk, *braking_acceleration, *braking_jerk;
  const double *inverse_acceleration, *inverse_jerk;  // of the two before
  const double *fine;                                 // a control
  const double *low, *high, *cone_axis;          // 3
  const double *directions, *box_low, *box_high;  // 6 x controls, 3, 3
  double period, rate, linear, angular, cone_angle, damping;
};

struct Frame {
  double position[3], rotation[9];
};

void multiply(const double *a, const double *b, double *out) {  // 3 x 3
  for (int r = 0; r < 3; r++)
    for (int c = 0; c < 3; c++) out[3 * r + c] = a[3 * r] * b[c] + a[3 * r + 1] * b[3 + c] + a[3 * r + 2] * b[6 + c];
}

void rotate(const double *matrix, const double *vector, double *out) {
  for (int r = 0; r < 3; r++)
    out[r] = matrix[3 * r] * vector[0] + matrix[3 * r + 1] * vector[1] + matrix[3 * r + 2] * vector[2];
}

class Motion {
 public:
  explicit Motion(const Planner &planner)
      : p(planner), n(planner.joints), k(planner.controls), anchors_(3 * n), axes_(3 * n), jacobian_(6 * n) {}

  // The end effector's frame at joint positions q; anchors and axes of the joints in the base frame stay behind.
  void forward(const double *q, Frame &frame) {
    double position[3] = {0, 0, 0}, rotation[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, moved[3], turned[9];
    for (int i = 0; i < n; i++) {
      rotate(rotation, p.offsets + 3 * i, moved);
      for (int c = 0; c < 3; c++) position[c] += moved[c];
      multiply(rotation, p.rotations + 9 * i, turned);
      const double value = q[p.order[i]] - p.references[i];
      double *axis = &axes_[3 * i], *anchor = &anchors_[3 * i];
      for (int c = 0; c < 3; c++) axis[c] = turned[3 * c + 2];
      if (p.slides[i])
        for (int c = 0; c < 3; c++) position[c] += value * axis[c];
      const double s = p.slides[i] ? 0.0 : std::sin(value), cosine = p.slides[i] ? 1.0 : std::cos(value);
      for (int c = 0; c < 3; c++) {
        anchor[c] = position[c];
        rotation[3 * c] = cosine * turned[3 * c] + s * turned[3 * c + 1];
        rotation[3 * c + 1] = cosine * turned[3 * c + 1] - s * turned[3 * c];
        rotation[3 * c + 2] = axis[c];
      }
    }
    rotate(rotation, p.tool_offset, moved);
    for (int c = 0; c < 3; c++) frame.position[c] = position[c] + moved[c];
    multiply(rotation, p.tool_rotation, frame.rotation);
  }

  // Joint velocities (n x k) by controls at q. `factor_` stays behind for joint_velocity(). Controls in the end
  // effector's frame are in the `measured` one (9), if that is given.
  void map(const double *q, Frame &frame, double *matrix, const double *measured = nullptr) {
    forward(q, frame);
    if (measured && p.local) std::copy(measured, measured + 9, frame.rotation);
    for (int i = 0; i < n; i++) {
      const double *axis = &axes_[3 * i], *anchor = &anchors_[3 * i];
      double *column = &jacobian_[6 * p.order[i]];  // column by column
      if (p.slides[i]) {
        std::copy(axis, axis + 3, column);
        std::fill(column + 3, column + 6, 0.0);
        continue;
      }
      const double r[3] = {frame.position[0] - anchor[0], frame.position[1] - anchor[1], frame.position[2] - anchor[2]};
      column[0] = axis[1] * r[2] - axis[2] * r[1];
      column[1] = axis[2] * r[0] - axis[0] * r[2];
      column[2] = axis[0] * r[1] - axis[1] * r[0];
      std::copy(axis, axis + 3, column + 3);
    }
    for (int r = 0; r < 6; r++)
      for (int c = 0; c <= r; c++) {
        double sum = r == c ? p.damping * p.damping : 0.0;
        for (int i = 0; i < n; i++) sum += jacobian_[6 * i + r] * jacobian_[6 * i + c];
        factor_[6 * r + c] = sum;
      }
    for (int c = 0; c < 6; c++)  // Cholesky: J J^T + damping^2 = L L^T; of the diagonal of L the inverse is kept
      for (int r = c; r < 6; r++) {
        double sum = factor_[6 * r + c];
        for (int i = 0; i < c; i++) sum -= factor_[6 * r + i] * factor_[6 * c + i];
        factor_[6 * r + c] = r == c ? 1 / std::sqrt(sum) : sum * factor_[6 * c + c];
      }
    for (int j = 0; j < k; j++) {
      double direction[6];
      displacement_of(frame, j, direction);
      joint_velocity(direction, matrix + j, k);
    }
  }

  // Joint velocities (n), `step` apart, that move the end effector by `displacement` (6) in a period; after map().
  void joint_velocity(const double *displacement, double *out, int step) const {
    double x[6];
    for (int r = 0; r < 6; r++) {
      double sum = displacement[r];
      for (int c = 0; c < r; c++) sum -= factor_[6 * r + c] * x[c];
      x[r] = sum * factor_[6 * r + r];
    }
    for (int r = 5; r >= 0; r--) {
      double sum = x[r];
      for (int c = r + 1; c < 6; c++) sum -= factor_[6 * c + r] * x[c];
      x[r] = sum * factor_[6 * r + r];
    }
    for (int i = 0; i < n; i++) {
      double sum = 0;
      for (int r = 0; r < 6; r++) sum += jacobian_[6 * i + r] * x[r];
      out[step * i] = sum * p.rate;
    }
  }

  void displacement_of(const Frame &frame, int control, double *out) const {
    double direction[6];
    for (int r = 0; r < 6; r++) direction[r] = p.directions[k * r + control];
    if (p.local) {
      rotate(frame.rotation, direction, out);
      rotate(frame.rotation, direction + 3, out + 3);
    } else {
      std::copy(direction, direction + 6, out);
    }
  }

  const Planner &p;
  const int n, k;
  std::vector<double> anchors_, axes_, jacobian_;
  double factor_[36];
};

// The strongest deceleration from `speed` that can still be eased out by `jerk` until rest.
double strongest(double speed, double jerk, double period) {
  const double step = jerk * period;
  const double whole = std::floor((std::sqrt(1 + 8 * speed / (period * step)) - 1) / 2);
  return (speed / period + step * whole * (whole + 1) / 2) / (whole + 1);
}

double clamp(double value, double low, double high) { return std::min(std::max(value, low), high); }

// The next velocity of a joint that stops.
double slower(double velocity, double acceleration, double limit, double jerk, double period) {
  const double speed = std::fabs(velocity);
  // From this speed on the limit can be eased out: no need to ask for more.
  const bool fast = speed * jerk > limit * (limit / 2 + jerk * period) * (1 + kSlack);
  const double strength = fast ? limit : std::min(limit, strongest(speed, jerk, period));
  const double wanted = velocity > 0 ? -strength : strength;
  return velocity + clamp(wanted, acceleration - jerk * period, acceleration + jerk * period) * period;
}

// How often a way of `steps` times what is worth looking for is halved.
int halvings(double steps) { return std::min(std::max(static_cast<int>(std::ceil(std::log2(steps))), 2), 6); }

struct State {
  std::vector<double> q, velocity, acceleration, controls, rates;

  // From joint positions, velocities, accelerations (n), controls and their rates of change (k), one after another.
  State(const double *values, int n, int k)
      : q(values, values + n), velocity(values + n, values + 2 * n), acceleration(values + 2 * n, values + 3 * n),
        controls(values + 3 * n, values + 3 * n + k), rates(values + 3 * n + k, values + 3 * n + 2 * k) {}

  void write(double *out) const {
    for (const auto *part : {&q, &velocity, &acceleration, &controls, &rates})
      out = std::copy(part->begin(), part->end(), out);
  }
};

// The next controls of an arm that stops, where joint velocities are matrix (n x k) @ controls.
void slower_controls(const Planner &p, const double *matrix, const State &state, double *out) {
  const int n = p.joints, k = p.controls;
  const double period = p.period;
  bool rests = true;
  double heaviest = 0, jerkiest = 0;  // shares of the limits that controls of this size are, per second
  for (int i = 0; i < n; i++) {
    // Whole limits: to stand still needs no Jacobian, so it cannot have changed.
    const double needed = -state.velocity[i] * p.rate, jolt = p.jerk[i] * period * (1 + kSlack);
    rests = rests && std::fabs(needed) <= std::min(p.acceleration[i], jolt) &&
            std::fabs(needed - state.acceleration[i]) <= jolt;
    double speed = 0;
    for (int j = 0; j < k; j++) speed += matrix[k * i + j] * state.controls[j];
    speed = std::fabs(speed) + 1e-12;
    heaviest = std::max(heaviest, speed * p.inverse_acceleration[i]);
    jerkiest = std::max(jerkiest, speed * p.inverse_jerk[i]);
  }
  if (rests) {
    std::fill(out, out + k, 0.0);
    return;
  }
  const double strength = kShare * std::min(1 / heaviest, strongest(1.0 / kShare, 1 / jerkiest, period));
  double kept[6], change[6];  // of an end effector there are at most six
  for (int j = 0; j < k; j++) {
    kept[j] = state.controls[j] + state.rates[j] * period;
    change[j] = (-strength * state.controls[j] - state.rates[j]) * period;
  }
  double least = -kInfinity, most = kInfinity;
  for (int i = 0; i < n; i++) {
    const double jolt = p.braking_jerk[i] * period;
    const double low = std::max(state.acceleration[i] - jolt, -p.braking_acceleration[i]);
    const double high = std::min(state.acceleration[i] + jolt, p.braking_acceleration[i]);
    double start = -state.velocity[i], slope = 0;
    for (int j = 0; j < k; j++) {
      start += matrix[k * i + j] * kept[j];
      slope += matrix[k * i + j] * change[j];
    }
    if (std::fabs(slope) < 1e-12) continue;
    const double inverse = 1 / slope, one = (low * period - start) * inverse, other = (high * period - start) * inverse;
    least = std::max(least, std::min(one, other));
    most = std::min(most, std::max(one, other));
  }
  const double blend = least > most ? clamp((least + most) / 2, 0.0, 1.0) : clamp(1.0, least, most);
  for (int j = 0; j < k; j++) out[j] = kept[j] + blend * change[j];
}

double outside(const Planner &p, const double *position) {
  double most = 0;
  for (int c = 0; c < 3; c++) most = std::max({most, p.low[c] - position[c], position[c] - p.high[c]});
  return most;
}

double lean(const Planner &p, const Frame &frame) {
  double cosine = 0;
  for (int c = 0; c < 3; c++) cosine += frame.rotation[3 * c + 2] * p.cone_axis[c];
  return std::acos(clamp(cosine, -1.0, 1.0));
}

// Whether the end effector may go from one frame to another in `periods`.
bool may_go(const Planner &p, const Frame &from, const Frame &to, double periods, double most, double most_lean) {
  if (outside(p, to.position) > most) return false;
  const double time = p.period * periods * (periods > 1 ? 0.995 : 1.0);
  double squared = 0, trace = 0;
  for (int c = 0; c < 3; c++) squared += (to.position[c] - from.position[c]) * (to.position[c] - from.position[c]);
  for (int c = 0; c < 9; c++) trace += to.rotation[c] * from.rotation[c];
  if (std::sqrt(squared) > p.linear * time * (1 + kSlack)) return false;
  const double angle = p.angular * time * (1 + kSlack);
  if (angle < M_PI && trace < 1 + 2 * std::cos(angle)) return false;
  return !(p.cone_angle < M_PI) || lean(p, to) <= most_lean;
}

bool within_limits(const Planner &p, const State &state, const double *velocity, const double *start) {
  for (int i = 0; i < p.joints; i++) {
    const double acceleration = (velocity[i] - state.velocity[i]) * p.rate;
    const double jerk = (acceleration - state.acceleration[i]) * p.rate;
    const double reached = state.q[i] + velocity[i] * p.period;
    if (!(std::fabs(velocity[i]) <= p.velocity[i] * (1 + kSlack) &&
          std::fabs(acceleration) <= p.acceleration[i] * (1 + kSlack) &&
          std::fabs(jerk) <= p.jerk[i] * (1 + kSlack) && reached <= std::max(p.upper[i] + kLength, start[i]) &&
          reached >= std::min(p.lower[i] - kLength, start[i])))
      return false;
  }
  return true;
}

void advance(const Planner &p, State &state, const std::vector<double> &velocity, const std::vector<double> &controls) {
  for (int j = 0; j < p.controls; j++) state.rates[j] = (controls[j] - state.controls[j]) * p.rate;
  state.controls = controls;
  for (int i = 0; i < p.joints; i++) {
    state.acceleration[i] = (velocity[i] - state.velocity[i]) * p.rate;
    state.velocity[i] = velocity[i];
    state.q[i] += velocity[i] * p.period;
  }
}

bool at_rest(const Planner &p, const State &state) {
  for (int i = 0; i < p.joints; i++)
    if (std::fabs(state.velocity[i]) > kRest || std::fabs(state.acceleration[i]) > p.jerk[i] * p.period * (1 + kSlack))
      return false;
  return true;
}

enum { kClear = 0, kJoints = 1, kEndEffector = 2 };

// One question to the planner: the arm's state, and how it would go on from there.
class Question {
 public:
  Question(const Planner &planner, const double *values, const double *measured)
      : p(planner), n(p.joints), k(p.controls), state_(values, n, k), measured_(measured), motion_(p), matrix_(n * k),
        ahead_(n * k), velocity_(n), next_(k), predicted_(n), first_(n * k), here_(p) {
    if (p.end_effector)
      here_.map(state_.q.data(), frame_, first_.data(), measured + 3);
    else if (p.looks)
      here_.forward(state_.q.data(), frame_);
    if (p.looks) {
      slip_ = outside(p, frame_.position);
      most_lean_ = std::max(p.cone_angle + kSlack, lean(p, frame_));
    }
  }

  // The controls (k) with which a stop goes on.
  void stop(double *out) const {
    if (p.end_effector) {
      slower_controls(p, first_.data(), state_, out);
      return;
    }
    for (int i = 0; i < n; i++)
      out[i] = slower(state_.velocity[i], state_.acceleration[i], p.braking_acceleration[i], p.braking_jerk[i], p.period);
  }

  // Controls (k) that are nearer to `stop` than `wanted` (both k) as far as single joints need it.
  void limit(const double *stop, const double *wanted, double *out) const {
    if (p.end_effector) {
      const double share = share_of_joints(stop, wanted);
      for (int j = 0; j < k; j++) out[j] = stop[j] + share * (wanted[j] - stop[j]);
    } else {
      for (int i = 0; i < n; i++) out[i] = limit_joint(i, wanted[i]);
    }
  }

  // Simulates one period with `controls` (k) and the stop after it. `path` gets the postures (m x n) that were looked
  // at, `travel` how far the joints (n) move along it, `next_state` the state (3n + 2k) after the first period.
  // Returns the outcome and m, as outcome + 4 m.
  int plan(const double *controls, double *path, double *travel, double *next_state) {
    State now = state_;
    Frame before = frame_, frame;
    int count = 0;
    const auto answer = [&](int outcome) { return outcome + 4 * count; };
    std::fill(travel, travel + n, 0.0);
    std::copy(controls, controls + k, next_.begin());
    if (p.end_effector) {
      cut_off();
      matrix_ = first_;
    } else {
      std::copy(controls, controls + k, velocity_.begin());
    }
    State then = now;
    advance(p, then, velocity_, next_);
    then.write(next_state);
    int since = 0, block = 1;  // the first block is one period
    for (int done = 0; done < p.steps; done++) {
      if (p.end_effector)
        for (int j = 0; j < k; j++)
          if (!(std::fabs(next_[j]) <= 1 + kSlack)) return answer(kJoints);
      if (!within_limits(p, now, velocity_.data(), state_.q.data())) return answer(kJoints);
      advance(p, now, velocity_, next_);
      const bool rests = at_rest(p, now);
      if (++since == block || rests) {
        if (p.looks) {
          motion_.forward(now.q.data(), frame);
          if (!may_go(p, before, frame, since, std::max(kLength, slip_), most_lean_)) return answer(kEndEffector);
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
      if (p.holds_box && since == 0 && is_cut_off(before)) return answer(kEndEffector);
    }
    return answer(kJoints);
  }

 private:
  // Joint velocities of the first period, and what of its controls the robot's own controller leaves at its box.
  void cut_off() {
    double displacement[6] = {0}, single[6];
    for (int j = 0; j < k; j++) {
      here_.displacement_of(frame_, j, single);
      for (int r = 0; r < 6; r++) displacement[r] += single[r] * next_[j];
    }
    if (p.holds_box)
      for (int c = 0; c < 3; c++) {
        const double kept = clamp(measured_[c] + displacement[c], p.box_low[c], p.box_high[c]) - measured_[c];
        if (kept == displacement[c]) continue;
        displacement[c] = kept;
        if (!p.local)
          for (int j = 0; j < k; j++)
            if (p.directions[k * c + j] != 0) next_[j] = kept / p.directions[k * c + j];
      }
    here_.joint_velocity(displacement, velocity_.data(), 1);
  }

  // Whether the robot's own controller would cut something off the next controls: that is no part of a stop.
  bool is_cut_off(const Frame &from) const {
    double single[6], target[3];
    std::copy(from.position, from.position + 3, target);
    for (int j = 0; j < k; j++) {
      here_.displacement_of(from, j, single);
      for (int c = 0; c < 3; c++) target[c] += single[c] * next_[j];
    }
    for (int c = 0; c < 3; c++)
      if (target[c] > p.box_high[c] + slip_ || target[c] < p.box_low[c] - slip_) return true;
    return false;
  }

  // The map from controls to joint velocities at `now`, and with strides that at the end of the next one.
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

  // The next period of a stop, `since` periods after the last look.
  void go_on(const State &now, int since) {
    if (!p.end_effector) {
      for (int i = 0; i < n; i++)
        next_[i] = velocity_[i] =
            slower(now.velocity[i], now.acceleration[i], p.braking_acceleration[i], p.braking_jerk[i], p.period);
      return;
    }
    if (p.stride > 1 && since > 0) {  // the map turns steadily from one look to the next
      const double share = 1.0 / (p.stride - since + 1);
      for (int e = 0; e < n * k; e++) matrix_[e] += share * (ahead_[e] - matrix_[e]);
    }
    slower_controls(p, matrix_.data(), now, next_.data());
    for (int i = 0; i < n; i++) {
      velocity_[i] = 0;
      for (int j = 0; j < k; j++) velocity_[i] += matrix_[k * i + j] * next_[j];
    }
  }

  // How far on the way from `stop` to `wanted` controls (k) the next period is within the limits of all joints.
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
        start += first_[k * i + j] * stop[j];
        slope += first_[k * i + j] * (wanted[j] - stop[j]);
      }
      share = std::min(share, (slope > 0 ? high - start : start - low) / std::max(std::fabs(slope), 1e-12));
    }
    return std::max(share, 0.0);
  }

  // The nearest velocity to `wanted` after which a joint can stop, looked at by itself.
  double limit_joint(int i, double wanted) const {
    const double velocity = state_.velocity[i], acceleration = state_.acceleration[i], top = p.velocity[i];
    const double limit = p.braking_acceleration[i], jerk = p.braking_jerk[i], change = jerk * p.period;
    const double low = clamp(acceleration - change, -limit, limit), high = clamp(acceleration + change, -limit, limit);
    const double fastest =
        clamp(clamp(wanted, -top, top), velocity + low * p.period, velocity + high * p.period);
    if (joint_stops(i, fastest)) return fastest;
    const double slowest = slower(velocity, acceleration, limit, jerk, p.period);
    double share = 0.0;
    for (int count = halvings(std::fabs(fastest - slowest) / p.fine[i]), tried = 0; tried < count; tried++) {
      const double half = std::ldexp(0.5, -tried);
      if (joint_stops(i, slowest + (share + half) * (fastest - slowest))) share += half;
    }
    return slowest + share * (fastest - slowest);
  }

  // Whether a joint that goes on at velocity `next` can stop within its own limits.
  bool joint_stops(int i, double next) const {
    const double limit = p.braking_acceleration[i], jerk = p.braking_jerk[i], jolt = p.jerk[i] * p.period;
    double place = state_.q[i], speed = state_.velocity[i];
    const double top = std::max(p.upper[i] + kLength, place), bottom = std::min(p.lower[i] - kLength, place);
    for (int step = 0; step < p.steps; step++) {
      const double change = (next - speed) * p.rate;
      speed = next;
      place += speed * p.period;
      if (place > top || place < bottom || std::fabs(speed) > p.velocity[i] * (1 + kSlack)) return false;
      if (std::fabs(speed) <= kRest && std::fabs(change) <= jolt * (1 + kSlack)) return true;
      next = slower(speed, change, limit, jerk, p.period);
    }
    return false;
  }

  const Planner &p;
  const int n, k;
  const State state_;
  const double *measured_;
  Motion motion_;
  Frame frame_;
  std::vector<double> matrix_, ahead_, velocity_, next_, predicted_, first_;
  Motion here_;  // at the state that was asked about
  double slip_ = 0, most_lean_ = 0;  // how far the end effector is outside its box, and may lean
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// As StopPlanner.plan. `state` (3n + 2k), `measured` (12), `controls` (k); the rest is as in Question::plan.
EXPORT int32_t robo_rl_plan(const Planner *planner, const double *state, const double *measured, const double *controls,
                            double *path, double *travel, double *next_state) {
  return Question(*planner, state, measured).plan(controls, path, travel, next_state);
}

// As StopPlanner.nearest. `wanted` (k) becomes what is nearest to it, `stop` gets the controls (k) of the stop. Returns
// the limits that were in the way and the length of the path, as reasons + 4 m. Reasons: 1 for joints, 2 for the end
// effector, 3 for both.
EXPORT int32_t robo_rl_nearest(const Planner *planner, const double *state, const double *measured, double *wanted,
                               double *stop, double *path, double *travel, double *next_state) {
  const int k = planner->controls;
  Question question(*planner, state, measured);
  question.stop(stop);
  int answer = question.plan(wanted, path, travel, next_state), reasons = answer % 4;
  if (reasons == kClear) return answer;
  std::vector<double> far(k), option(k);
  const auto take = [&](double share) {  // as it will be sent: end-effector actions are float32
    for (int j = 0; j < k; j++) {
      const double value = stop[j] + share * (far[j] - stop[j]);
      option[j] = planner->end_effector ? static_cast<double>(static_cast<float>(value)) : value;
    }
    answer = question.plan(option.data(), path, travel, next_state);
    return answer % 4;
  };
  question.limit(stop, wanted, far.data());
  const int outcome = take(1.0);
  reasons |= outcome;
  if (outcome != kClear) {
    double share = 0, last = 1, steps = 1;
    for (int j = 0; j < k; j++) steps = std::max(steps, std::fabs(far[j] - stop[j]) / planner->fine[j]);
    for (int count = halvings(steps), tried = 0; tried < count; tried++) {
      const double half = std::ldexp(0.5, -tried);
      last = share + half;
      if (take(last) == kClear) share = last;
    }
    if (share != last) take(share);  // the path that was chosen
  }
  std::copy(option.begin(), option.end(), wanted);
  return reasons + answer / 4 * 4;
}
