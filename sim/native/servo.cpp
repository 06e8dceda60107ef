// The simulated arm without Python. One control period: the ticks of EndEffectorController, which ../controller.py
// defines, between the two halves of each physics step. And a prediction of joint positions: the same with the law of
// JointController for a reference that is known. All memory belongs to the caller and to MuJoCo.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <mujoco/mujoco.h>

namespace {

// As in __init__.py. Pointers refer to arrays of `joints` elements unless stated otherwise.
struct Servo {
  int32_t joints, site, gripper;  // gripper: its actuator, -1 for none
  const int32_t *positions, *dofs, *motors, *wrench;  // wrench: 6 indices in sensordata
  const double *lower, *upper, *braking, *top_speed, *top_torque, *home;
  const double *stiffness, *damping, *clip;                // 6
  const double *reference_position, *reference_quaternion;  // 3, 4
  double *previous;                                         // torques of the last tick
  double limit_approach, largest_change, posture_stiffness, posture_damping, gripper_target;
};

struct Buffers {
  std::vector<double> jacobian, responses, torque, posture;
  Buffers(int joints, int nv) : jacobian(6 * nv), responses(6 * nv), torque(joints), posture(joints) {}
};

double clamp(double value, double low, double high) { return std::max(low, std::min(value, high)); }

// torque = J^T (K clip(e) - D v) + N^T (k (q_home - q) - d q'): see EndEffectorController.
void impedance(const Servo &servo, const mjModel *model, mjData *data, Buffers &buffers) {
  const int n = servo.joints, nv = model->nv;
  double *jacobian = buffers.jacobian.data(), *responses = buffers.responses.data();
  mj_jacSite(model, data, jacobian, jacobian + 3 * nv, servo.site);

  double error[6], local[3], quaternion[4];
  const double *position = data->site_xpos + 3 * servo.site, *attitude = data->site_xmat + 9 * servo.site;
  mju_sub3(error, servo.reference_position, position);
  mju_mat2Quat(quaternion, attitude);
  mju_subQuat(local, servo.reference_quaternion, quaternion);
  mju_mulMatVec3(error + 3, attitude, local);

  // Rows of J M^-1; with them A = J M^-1 J^T, and A^-1 (J M^-1 posture) is the wrench to subtract.
  mj_solveM(model, data, responses, jacobian, 6);
  for (int i = 0; i < n; i++)
    buffers.posture[i] = servo.posture_stiffness * (servo.home[i] - data->qpos[servo.positions[i]]) -
                         servo.posture_damping * data->qvel[servo.dofs[i]];
  double mobility[36], disturbance[6], wrench[6];
  for (int row = 0; row < 6; row++) {
    const double *response = responses + row * nv;
    double speed = 0, pushed = 0;
    for (int i = 0; i < n; i++) {
      speed += jacobian[row * nv + servo.dofs[i]] * data->qvel[servo.dofs[i]];
      pushed += response[servo.dofs[i]] * buffers.posture[i];
    }
    for (int column = 0; column < 6; column++) {
      double sum = 0;
      for (int i = 0; i < n; i++) sum += response[servo.dofs[i]] * jacobian[column * nv + servo.dofs[i]];
      mobility[6 * row + column] = sum;
    }
    disturbance[row] = pushed;
    wrench[row] = servo.stiffness[row] * clamp(error[row], -servo.clip[row], servo.clip[row]) -
                  servo.damping[row] * speed;
  }
  mju_cholFactor(mobility, 6, 1e-4);
  mju_cholSolve(disturbance, mobility, disturbance, 6);
  for (int i = 0; i < n; i++) {
    double torque = buffers.posture[i];
    for (int row = 0; row < 6; row++)
      torque += (wrench[row] - disturbance[row]) * jacobian[row * nv + servo.dofs[i]];
    buffers.torque[i] = torque;
  }
}

// Controller.tick: gravity and Coriolis forces, limits of position, speed, torque and its rate.
void tick(const Servo &servo, const mjModel *model, mjData *data, Buffers &buffers) {
  impedance(servo, model, data, buffers);
  for (int i = 0; i < servo.joints; i++) {
    const double position = data->qpos[servo.positions[i]], velocity = data->qvel[servo.dofs[i]];
    const double upper = std::min(servo.limit_approach * (servo.upper[i] - position), servo.top_speed[i]);
    const double lower = std::max(servo.limit_approach * (servo.lower[i] - position), -servo.top_speed[i]);
    const double allowed = std::max(std::min(velocity, upper), lower);
    double torque = buffers.torque[i] + data->qfrc_bias[servo.dofs[i]] + servo.braking[i] * (allowed - velocity);
    torque = servo.previous[i] + clamp(torque - servo.previous[i], -servo.largest_change, servo.largest_change);
    torque = clamp(torque, -servo.top_torque[i], servo.top_torque[i]);
    servo.previous[i] = torque;
    data->ctrl[servo.motors[i]] = torque;
  }
  if (servo.gripper >= 0) data->ctrl[servo.gripper] = servo.gripper_target;
}

}  // namespace

// Take `ticks` physics steps; the first half of the first one must already have run. Add the wrist sensor's reading in
// each to `wrench` (6).
extern "C" __attribute__((visibility("default"))) void robo_rl_servo(const Servo *servo, const mjModel *model,
                                                                     mjData *data, int32_t ticks, double *wrench) {
  Buffers buffers(servo->joints, model->nv);
  for (int number = 0; number < ticks; number++) {
    if (number > 0) mj_step1(model, data);
    tick(*servo, model, data, buffers);
    mj_step2(model, data);
    for (int i = 0; i < 6; i++) wrench[i] += data->sensordata[servo->wrench[i]];
  }
}

// What ../identification/prediction.py predicts with. Pointers refer to arrays of `joints` elements.
struct Prediction {
  int32_t joints, ticks;
  const int32_t *positions, *dofs, *motors;
  const double *stiffness, *damping, *limits;
};

// Take `ticks` physics steps with the torques pull - stiffness q - damping q' + gravity and Coriolis forces, where `pull`
// (ticks, joints) follows from the reference. Write the positions after each of them to `out`.
extern "C" __attribute__((visibility("default"))) void robo_rl_predict(const Prediction *law, const mjModel *model,
                                                                       mjData *data, const double *pull, double *out) {
  const int n = law->joints;
  for (int number = 0; number < law->ticks; number++, pull += n) {
    mj_step1(model, data);
    for (int i = 0; i < n; i++) {
      const int dof = law->dofs[i];
      const double torque = pull[i] - law->stiffness[i] * data->qpos[law->positions[i]] -
                            law->damping[i] * data->qvel[dof] + data->qfrc_bias[dof];
      data->ctrl[law->motors[i]] = clamp(torque, -law->limits[i], law->limits[i]);
    }
    mj_step2(model, data);
    for (int i = 0; i < n; i++) *out++ = data->qpos[law->positions[i]];
  }
}
