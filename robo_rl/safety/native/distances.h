// Distances between the arm's links, and between them and keep-out volumes, measured by MuJoCo: the Clearances of
// ../barrier.py in C++. Geoms that overlap or touch are left to Python, because MuJoCo's answer may be wrong there.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

// As in distances.py. The functions are MuJoCo's, and `model` and `data` their arguments; nothing else uses `data`. The
// arrays `bounds`, `joints`, `points` and `measured` are those of Clearances, and this code writes to them as well.
struct Distances {
  int32_t pairs, size, velocities, measures;  // number of pairs, of joints and of all velocities of the model
  const int32_t *geoms, *bodies;              // 2 per pair; a body of -1 rests
  const int32_t *places, *columns;            // of the joints, in the model's positions and velocities
  const double *levers, *enough;              // pairs x size, pairs
  double *bounds, *joints, *points;           // pairs, size, pairs x 6
  uint8_t *measured;                          // pairs
  double *posture;                            // the positions of `data`
  void *model, *data;
  void (*place_geoms)(const void *, void *);   // mj_kinematics
  void (*find_axes)(const void *, void *);    // mj_comPos, which the Jacobians need
  double (*distance)(const void *, const void *, int, int, double, double *);                // mj_geomDistance
  void (*jacobian)(const void *, const void *, double *, double *, const double *, int);  // mj_jac
  double margin, approach, stop_margin, reach, far;
};

constexpr double kTouching = 1e-9;  // a smaller distance is left to ../barrier.py [m]

// Answers to the question whether a path keeps clear; kUnknown where geoms touch.
enum { kUnknown = -1, kNear = 0, kFar = 1 };

// The distances at one posture. Tests are false where geoms touch, which leaves the decision to Python.
class Surroundings {
 public:
  Surroundings(const Distances &distances, const double *joints) : d(distances), n(d.size), q_(joints) { move(); }

  // Whether all distances are large enough for every action; as BarrierFilter.is_clear.
  bool are_large() {
    for (int pair = 0; pair < d.pairs; pair++)
      if (d.bounds[pair] <= d.enough[pair] && !(d.measures && measure(pair) && d.bounds[pair] > d.enough[pair]))
        return false;
    return true;
  }

  // Whether BarrierFilter lets a motion (n) pass unchanged.
  bool allow(const double *motion) {
    std::vector<double> change(n), needed(d.pairs);
    double sum = 0;
    for (int i = 0; i < n; i++) {
      change[i] = std::fabs(motion[i]);
      sum += change[i];
    }
    if (!std::isfinite(sum)) return false;
    bool near = false;
    for (int pair = 0; pair < d.pairs; pair++) {
      needed[pair] = loss(pair, change.data()) / d.approach + d.margin;
      if (d.bounds[pair] >= needed[pair]) continue;
      if (!measure(pair)) return false;
      near |= d.bounds[pair] < needed[pair];
    }
    if (!near) return true;
    const double most = *std::max_element(needed.begin(), needed.end());
    std::vector<int> chosen;
    for (int pair = 0; pair < d.pairs; pair++) {
      if (d.bounds[pair] >= most) continue;
      if (!measure(pair)) return false;
      if (d.bounds[pair] < d.reach) chosen.push_back(pair);
    }
    place(q_);
    d.find_axes(d.model, d.data);
    for (int pair : chosen) {
      const double least = -d.approach * std::max(d.bounds[pair] - d.margin, 0.0);
      if (!(growth(pair, motion) >= least - 1e-6)) return false;  // also if it is not a number
    }
    return true;
  }

  // Whether every pair keeps `stop_margin` along a path of `count` postures; as Clearances.keeps.
  int keep(const double *path, int count, const double *travel) {
    std::vector<Way> near;
    for (int pair = 0; pair < d.pairs; pair++) {
      const double taken = loss(pair, travel);
      if (d.bounds[pair] - taken >= d.stop_margin) continue;
      if (!measure(pair)) return kUnknown;
      if (d.bounds[pair] - taken < d.stop_margin) near.push_back({pair, 0, d.bounds[pair], 0, taken});
    }
    if (near.empty()) return kFar;
    if (!count) return kNear;
    const auto posture = [&](int number) { return number ? path + n * (number - 1) : q_; };
    for (Way &way : near) {
      way.end = distance(way.pair, posture(count), elsewhere_);
      way.allowed = std::min(d.stop_margin - 1e-6, way.start) - 1e-9;
      if (!(way.end >= kTouching)) return kUnknown;
      if (way.end < way.allowed) return kNear;
    }
    for (const Way &way : near) {
      // No distance in between is less than half of start + end - loss.
      if ((way.start + way.end - way.loss) / 2 >= way.allowed) continue;
      std::vector<double> losses(count + 1), change(n);
      for (int number = 1; number <= count; number++) {
        for (int i = 0; i < n; i++) change[i] = std::fabs(posture(number)[i] - posture(number - 1)[i]);
        losses[number] = losses[number - 1] + loss(way.pair, change.data());
      }
      const int answer = keep_between(way, losses, posture);
      if (answer != kFar) return answer;
    }
    return kFar;
  }

 private:
  // A pair that may be too near on a path: its distances at both ends, the least that is allowed on the way, and what
  // the way takes at most [m].
  struct Way {
    int pair;
    double allowed, start, end, loss;
  };

  // Part of a way, from one posture to another, with the distances there.
  struct Span {
    int first, last;
    double before, after;
  };

  // Whether a pair keeps the distance that is allowed between the ends of a way; as Clearances._keeps.
  template <typename Posture>
  int keep_between(const Way &way, const std::vector<double> &losses, Posture posture) {
    std::vector<Span> spans = {{0, static_cast<int>(losses.size()) - 1, way.start, way.end}};
    while (!spans.empty()) {
      const Span span = spans.back();
      spans.pop_back();
      const double from = losses[span.first], to = losses[span.last];
      if ((span.before + span.after - to + from) / 2 >= way.allowed || span.last - span.first < 2) continue;
      const double lowest = (span.before - span.after + from + to) / 2;
      const auto begin = losses.begin();
      const int middle = std::lower_bound(begin + span.first + 1, begin + span.last - 1, lowest) - begin;
      const double apart = distance(way.pair, posture(middle), elsewhere_);
      if (!(apart >= kTouching)) return kUnknown;
      if (apart < way.allowed) return kNear;
      spans.push_back({span.first, middle, span.before, apart});
      spans.push_back({middle, span.last, apart, span.after});
    }
    return kFar;
  }

  // How much of a pair's distance motion (n) of the joints may take at most.
  double loss(int pair, const double *motion) const {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += d.levers[n * pair + i] * motion[i];
    return sum;
  }

  // Lowers the bounds of all distances by what the way of the joints to their new positions may have taken.
  void move() {
    if (std::equal(q_, q_ + n, d.joints)) return;
    std::vector<double> way(n);
    for (int i = 0; i < n; i++) way[i] = std::fabs(q_[i] - d.joints[i]);
    for (int pair = 0; pair < d.pairs; pair++) d.bounds[pair] -= loss(pair, way.data());
    std::copy(q_, q_ + n, d.joints);
    std::fill_n(d.measured, d.pairs, 0);
  }

  // Raises the bound of a pair to its distance. Returns false if its geoms touch.
  bool measure(int pair) {
    if (d.measured[pair]) return d.bounds[pair] >= kTouching;
    const double apart = distance(pair, q_, d.points + 6 * pair);
    if (!(apart >= kTouching)) return false;
    d.bounds[pair] = apart;
    d.measured[pair] = 1;
    return true;
  }

  double distance(int pair, const double *joints, double *points) {
    place(joints);
    return d.distance(d.model, d.data, d.geoms[2 * pair], d.geoms[2 * pair + 1], d.far, points);
  }

  // Puts the model at joint positions (n), with all frames, unless it is there.
  void place(const double *joints) {
    bool moves = false;
    for (int i = 0; i < n; i++) {
      moves |= d.posture[d.places[i]] != joints[i];
      d.posture[d.places[i]] = joints[i];
    }
    if (moves) d.place_geoms(d.model, d.data);
  }

  // The change of a pair's distance by motion (n) of the joints, to first order, at a posture where it was measured. Not
  // a number for a pair that is further apart than `far`, whose nearest points are unknown.
  double growth(int pair, const double *motion) {
    const double *nearest = d.points + 6 * pair;
    const int32_t *bodies = d.bodies + 2 * pair;
    double apart[3], sum = 0;
    for (int c = 0; c < 3; c++) apart[c] = nearest[3 + c] - nearest[c];
    const double length = std::sqrt(apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2]);
    rows_.resize(3 * d.velocities);
    for (int side = 0; side < 2; side++) {
      if (bodies[side] < 0) continue;
      d.jacobian(d.model, d.data, rows_.data(), nullptr, nearest + 3 * side, bodies[side]);
      for (int c = 0; c < 3; c++) {
        double moved = 0;
        for (int i = 0; i < n; i++) moved += rows_[d.velocities * c + d.columns[i]] * motion[i];
        sum += (side ? moved : -moved) * apart[c] / length;
      }
    }
    return sum;
  }

  const Distances &d;
  const int n;
  const double *q_;
  double elsewhere_[6];  // nearest points that are not used
  std::vector<double> rows_;
};

}  // namespace
