/* Program that runs a policy written by robo-rl deploy output=policy.h; cc -std=c99 -O3 run_policy.c -o run_policy -lm */
#include <stdio.h>

#include "policy.h"

/* Replace this by measurements, in the order of policy_observation_names. */
static void observe(float *observation)
{
    for (int i = 0; i < POLICY_OBSERVATION_SIZE; ++i)
        observation[i] = 0.0f;
}

/* Replace this by a command to the robot, and wait for 1 / POLICY_CONTROL_RATE seconds. */
static void execute(const float *action)
{
    for (int i = 0; i < POLICY_ACTION_SIZE; ++i)
        printf("%s %.6f\n", policy_action_names[i], (double)(policy_action_scale[i] * action[i] + policy_action_offset[i]));
}

int main(void)
{
    float observation[POLICY_OBSERVATION_SIZE];
    float actions[POLICY_ACTION_CHUNK * POLICY_ACTION_SIZE];
    for (int decision = 0; decision < 5; ++decision) {
        observe(observation);
        policy_act(observation, actions);
        for (int i = 0; i < POLICY_ACTION_CHUNK; ++i) /* a chunk: several actions from one observation */
            execute(actions + i * POLICY_ACTION_SIZE);
    }
    return 0;
}
