// The filters of an arm's actions in the usual cases, one after another in one call: ContactLimits, WorkspaceBox,
// EndEffectorSpeed, SingularitySlowdown, BarrierFilter and JointLimits of robo_rl/safety, with the ActionMap that they
// share. What is not usual is left to Python: near contact, singular postures, and actions that the barrier changes.
#pragma once

#include <optional>

#include "distances.h"
#include "stopping.h"

namespace {

constexpr double kSlip = 0.05;  // as SLIP in ../workspace.py

enum { kJointDelta = 0, kJointPosition = 1, kEndEffectorDelta = 2 };

// As in filters.py. A query is in `observed` (the observation's `state`) and `action` (k elements, and the gripper's),
// which receives the answer; `state` (3n + 2k) is that of the arm, which the next query goes on from. Places are
// indices of `observed`.
struct Filters {
  const Planner *planner;
  const Distances *distances;  // null if there is no barrier
  const float *observed;
  float *action;
  double *state;
  const double *scales;                            // of the elements of an action (k)
  const double *lower, *nearest_low, *nearest_high;  // of commanded joint positions (n)
  const double *low, *high;                        // corners of the workspace (3)
  const int32_t *axes, *endless;                   // k, n
  int32_t space, stages, joints_place, position_place, columns_place, force_place, torque_place;
  int32_t nearest;  // receives the answer of Question::nearest
  double force, torque, slow_from, shift, turn, slow;
};

// Filters that were applied, up to this one; kDoubtful: all, but the way of the stop has yet to be found clear.
enum { kNone = 0, kBox = 2, kSpeed, kSingularity, kBarrier, kLimits, kDoubtful };

// Reasons for changes.
enum { kCut = 1, kFast = 2, kLimited = 4 };  // and the reasons of Question::nearest, times kLimited

// An action on its way through the filters.
class Passage {
 public:
  Passage(const Filters &filters, const Question &question)
      : f(filters), p(*f.planner), n(p.joints), k(p.controls), q_(p.state), position_(p.measured),
        rotation_(p.measured + 3), here_(question.here()), change_(padded(n)) {
    find_motion();
  }

  // Contact of the wrist: whether it is so light that nothing is slowed.
  bool is_light() const {
    const double load = std::max(length(f.observed + f.force_place) / f.force,
                                 length(f.observed + f.torque_place) / f.torque);
    return load <= f.slow_from;
  }

  // Shortens the motion if it leads out of the workspace. Returns whether it does.
  bool stay_in_box() {
    double limited[3];
    bool leaves = false;
    for (int c = 0; c < 3; c++) {
      const double target = position_[c] + cut_[c];
      limited[c] = f.low[c] <= target && target <= f.high[c] ? cut_[c] : in_box(c);
      leaves |= limited[c] != cut_[c];
    }
    if (!leaves) return false;
    if (f.space == kEndEffectorDelta && !p.local) {
      for (int j = 0; j < k; j++) {
        const int axis = f.axes[j];
        set(j, (axis < 3 ? limited[axis] : cut_[axis]) / f.scales[j]);
      }
      find_motion();
      return true;
    }
    double share = kInfinity;
    for (int c = 0; c < 3; c++)
      if (limited[c] != cut_[c] && uncut_[c] != 0) share = std::min(share, limited[c] / uncut_[c]);
    scale(share < kInfinity ? std::max(share, 0.0) : 0.0);
    return true;
  }

  // Slows a motion that is faster than the end effector may be. Returns whether it is.
  bool keep_speed() {
    const double excess = speed(cut_);
    if (excess <= 1.0 + 1e-6) return false;
    scale(1 / std::max(excess, speed(uncut_)));  // scaling does not slow a motion that is cut off: it is cut off less
    return true;
  }

  // The controls (k) of stops that the action commands.
  void find_controls(double *controls) const {
    if (f.space != kEndEffectorDelta) {
      for (int i = 0; i < n; i++) controls[i] = change_[i] / p.period;
      return;
    }
    for (int j = 0; j < k; j++) {
      controls[j] = f.action[j];
      // A push further out of the box is what it becomes, so that a smaller one is nearer to a stop.
      if (!p.local && is_cut_ && cut_[f.axes[j]] * controls[j] < 0) controls[j] = cut_[f.axes[j]] / f.scales[j];
    }
  }

  // The joint motion (n) that the action commands.
  const double *joint_motion() {
    if (f.space != kEndEffectorDelta) return change_.data();
    here_.joint_velocity(cut_, change_.data());
    for (int i = 0; i < n; i++) change_[i] *= p.period;
    return change_.data();
  }

  // Replaces the action by that of `controls` (k).
  void take(const double *controls) {
    if (f.space == kEndEffectorDelta) {
      for (int j = 0; j < k; j++) set(j, controls[j]);
      return;
    }
    for (int i = 0; i < n; i++) change_[i] = controls[i] * p.period;
    command();
  }

 private:
  static double length(const float *vector) {
    const double x = vector[0], y = vector[1], z = vector[2];
    return std::sqrt(x * x + y * y + z * z);
  }

  void set(int element, double value) {
    f.action[element] = static_cast<float>(value < -1 ? -1 : value > 1 ? 1 : value);
  }

  // A difference of joint positions, the shorter way round.
  double shorter(int joint, double difference) const {
    if (!f.endless[joint]) return difference;
    double turned = std::fmod(difference + M_PI, 2 * M_PI);
    if (turned < 0) turned += 2 * M_PI;
    return turned - M_PI;
  }

  // The commanded position that is nearest to where a joint is.
  double origin(int joint) const { return std::min(std::max(q_[joint], f.nearest_low[joint]), f.nearest_high[joint]); }

  // Computes the motion that the action commands.
  void find_motion() {
    if (f.space == kEndEffectorDelta) {
      find_displacement();
      return;
    }
    for (int i = 0; i < n; i++)
      change_[i] = f.space == kJointDelta
                       ? f.scales[i] * f.action[i]
                       : shorter(i, f.lower[i] + f.scales[i] * (f.action[i] + 1.0) - origin(i));
    here_.moved(change_.data(), uncut_);
    std::copy(uncut_, uncut_ + 6, cut_);
  }

  void find_displacement() {
    double asked[6] = {0};
    for (int j = 0; j < k; j++) asked[f.axes[j]] = f.scales[j] * f.action[j];
    for (int half = 0; half < 6; half += 3)
      for (int r = 0; r < 3; r++) {
        const double *row = rotation_ + 3 * r, *part = asked + half;
        uncut_[half + r] = p.local ? row[0] * part[0] + row[1] * part[1] + row[2] * part[2] : asked[half + r];
      }
    std::copy(uncut_, uncut_ + 6, cut_);
    is_cut_ = false;
    if (!p.holds_box) return;
    for (int c = 0; c < 3; c++) {  // from outside the box, the way back is no longer than the action
      const double start = position_[c], move = uncut_[c], size = std::fabs(move);
      if (p.box_low[c] <= start + move && start + move <= p.box_high[c]) continue;
      cut_[c] = clamp(clamp(move, p.box_low[c] - start, p.box_high[c] - start), -size, size);
      is_cut_ |= cut_[c] != move;
    }
  }

  // What replaces the motion along an axis that leads out of the workspace.
  double in_box(int axis) const {
    const double low = f.low[axis], high = f.high[axis], start = position_[axis], move = cut_[axis];
    const bool leads_back = f.space == kEndEffectorDelta && !p.local;
    if (leads_back && high < start && start < high + kSlip && move > 0) return -std::min(move, start - high);
    if (leads_back && low - kSlip < start && start < low && move < 0) return std::min(-move, low - start);
    return std::min(std::max(move, std::min(low - start, 0.0)), std::max(high - start, 0.0));
  }

  // The share of the speed limits that a displacement (6) uses.
  double speed(const double *displacement) const {
    const double *turn = displacement + 3;
    return std::max(std::hypot(displacement[0], displacement[1], displacement[2]) / f.shift,
                    std::hypot(turn[0], turn[1], turn[2]) / f.turn);
  }

  // Multiplies the motion by a factor.
  void scale(double factor) {
    if (f.space == kJointPosition) {
      for (int i = 0; i < n; i++) change_[i] *= factor;
      command();
    } else {
      for (int j = 0; j < k; j++) set(j, factor * f.action[j]);
    }
    find_motion();
  }

  // Replaces the action by that of the joint motion `change_`.
  void command() {
    for (int i = 0; i < n; i++)
      set(i, f.space == kJointDelta ? change_[i] / f.scales[i]
                                    : (shorter(i, origin(i) + change_[i]) - f.lower[i]) / f.scales[i] - 1);
  }

  const Filters &f;
  const Planner &p;
  const int n, k;
  const double *q_, *position_, *rotation_;
  const Motion &here_;
  std::vector<double> change_;
  double uncut_[6], cut_[6];
  bool is_cut_ = false;
};

// Reads the arm's part of the observation into the planner's query. Returns whether all of it is finite.
bool read_arm(const Filters &f) {
  const Planner &p = *f.planner;
  const int n = p.joints, k = p.controls;
  std::copy(f.observed + f.joints_place, f.observed + f.joints_place + n, p.state);
  std::copy(f.state + n, f.state + 3 * n + 2 * k, p.state + n);
  std::copy(f.observed + f.position_place, f.observed + f.position_place + 3, p.measured);
  double sum = 0;  // not finite if an element is not
  for (int i = 0; i < n; i++) sum += p.state[i];
  for (int c = 0; c < 3; c++) sum += p.measured[c];
  if (p.local) {
    const float *columns = f.observed + f.columns_place;
    for (int r = 0; r < 3; r++) {
      const int next = (r + 1) % 3, other = (r + 2) % 3;
      double *row = p.measured + 3 + 3 * r;
      row[0] = columns[r];
      row[1] = columns[3 + r];
      row[2] = static_cast<double>(columns[next]) * columns[3 + other] -
               static_cast<double>(columns[other]) * columns[3 + next];
      sum += row[0] + row[1] + row[2];
    }
  }
  return std::isfinite(sum);
}

// Applies the filters to an action. Returns reasons + 16 * the last filter that was applied.
int apply(Filters &f) {
  const Planner &p = *f.planner;
  int reasons = 0;
  const auto after = [&](int filter) { return reasons + 16 * filter; };
  if (!read_arm(f)) return after(kNone);
  Question question(p);
  Passage passage(f, question);
  if (!passage.is_light()) return after(kNone);
  if (passage.stay_in_box()) reasons |= kCut;
  if (f.stages == kBox) return after(kBox);
  if (passage.keep_speed()) reasons |= kFast;
  if (std::isfinite(f.slow) && !question.here().is_surely_regular(f.slow)) return after(kSpeed);
  std::optional<Surroundings> surroundings;
  if (f.distances) {
    surroundings.emplace(*f.distances, p.state);
    if (!surroundings->are_large() && !surroundings->allow(passage.joint_motion())) return after(kSingularity);
  }
  if (f.stages == kBarrier) return after(kBarrier);
  passage.find_controls(p.wanted);
  f.nearest = question.nearest(p.wanted, p.stop);
  // Of a stop that breaks a limit at once, no posture was checked.
  const int checked = f.nearest / 4;
  if (surroundings && !(checked && surroundings->keep(p.path, checked, p.travel) == kFar)) return after(kDoubtful);
  std::copy(p.next_state, p.next_state + 3 * p.joints + 2 * p.controls, f.state);
  if (f.nearest % 4) passage.take(p.wanted);
  reasons |= f.nearest % 4 * kLimited;
  return after(kLimits);
}

}  // namespace
